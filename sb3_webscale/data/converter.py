"""Converters: what turns a log into transitions. A plugin provides one; a rule is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl
from gymnasium import spaces

from sb3_webscale.data.checks import ROW, run_checks
from sb3_webscale.data.compiler import CompiledRule, compile_rule
from sb3_webscale.data.episodes import END, EPISODE, last_kinds
from sb3_webscale.data.fingerprint import data_fingerprint
from sb3_webscale.data.logged_events import LoggedEvents
from sb3_webscale.data.rules import Rule
from sb3_webscale.data.sources import Source, open_source
from sb3_webscale.data.transitions import ConversionReport, Transitions
from sb3_webscale.errors import DataError

__all__ = ["Converter", "RuleConverter"]


@runtime_checkable
class Converter(Protocol):
    """Turns a log into transitions. Equal content gives equal results, in the same order, every time.

    :class:`sb3_webscale.testing.converter.ConverterTestCase` checks an implementation.
    """

    def convert(self, source: str | Path) -> Transitions:
        """
        :param source: address of the log: file, directory or glob
        :return: its transitions
        :raises DataError: when the log is missing, empty or has a forbidden value
        """

    def logged_events(self, source: str | Path) -> LoggedEvents:
        """
        :param source: address of the log
        :return: every event of the log
        :raises DataError: as :meth:`convert`
        """

    def fingerprint(self, source: str | Path) -> str:
        """
        :param source: address of the log
        :return: SHA-256 over the log's content and the way of conversion, 64 hexadecimal digits
        :raises DataError: when the log is missing
        """


class RuleConverter:
    """A rule as a converter.

    The next observation of a row is the observation of the next row of its episode, never of another episode.

    - A terminal transition repeats its own observation as next observation; nothing may bootstrap from it, since
      ``terminated`` is True.
    - The last row of a truncated episode has no next observation, so it gives no transition (it is counted in
      ``report.dropped["no_next_observation"]``) and the row before it is marked ``truncated``.

    :param rule: the rule
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __repr__(self) -> str:
        return f"RuleConverter({self.rule.name!r})"

    def convert(self, source: str | Path) -> Transitions:
        """
        :param source: file, directory or glob
        :return: its transitions
        :raises RuleError: when the rule does not fit the log's columns
        :raises DataError: when the log is missing, empty or has a forbidden value
        """
        table = _Table(self.rule, open_source(source))
        return table.transitions()

    def logged_events(self, source: str | Path) -> LoggedEvents:
        """
        :param source: file, directory or glob
        :return: every event that is neither a duplicate nor dropped for a null
        :raises RuleError: when the rule does not fit the log's columns
        :raises DataError: when the log is missing, empty or has a forbidden value
        """
        return _Table(self.rule, open_source(source)).events()

    def fingerprint(self, source: str | Path) -> str:
        """
        :param source: file, directory or glob
        :return: SHA-256 over the files' bytes and the canonical rule
        :raises DataError: when the log is missing
        """
        return data_fingerprint(open_source(source).files, self.rule.canonical())


class _Table:
    """A log read and ordered by a rule."""

    def __init__(self, rule: Rule, source: Source) -> None:
        where = f"rule {rule.name!r}, source {source.uri!r}"
        scan = source.scan()
        self.compiled: CompiledRule = compile_rule(rule, scan.collect_schema(), where)
        raw = _read(scan.select(self.compiled.columns).with_row_index(ROW), where)
        run_checks(raw, self.compiled.checks, where)
        self.n_read = raw.height
        self.dropped = _count_dropped(raw, self.compiled.drop_causes())
        frame = self.compiled.plan(raw.lazy()).collect()
        if frame.is_empty():
            msg = f"{where}: every row was dropped ({self.dropped}); loosen nulls or clean the log"
            raise DataError(msg)
        self.observations = _matrix(frame, "state_", np.float32)
        self.actions = self._actions(frame)
        self.rewards = frame["reward"].to_numpy().astype(np.float32)
        self.propensities = frame["propensity"].to_numpy().astype(np.float64) if "propensity" in frame.columns else None
        self.episodes = frame[EPISODE].to_numpy().astype(np.int64)
        self.ends = frame[END].to_numpy()

    def _actions(self, frame: pl.DataFrame) -> npt.NDArray[Any]:
        if isinstance(self.compiled.action_space, spaces.Discrete):
            return frame["action_0"].to_numpy().astype(np.int64)
        return _matrix(frame, "action_", np.float32)

    def events(self) -> LoggedEvents:
        compiled = self.compiled
        return LoggedEvents(
            observations=self.observations,
            actions=self.actions,
            rewards=self.rewards,
            propensities=self.propensities,
            episode_ids=self.episodes,
            observation_space=compiled.observation_space,
            action_space=compiled.action_space,
            feature_names=compiled.feature_names,
        )

    def transitions(self) -> Transitions:
        kinds = last_kinds()
        terminal = self.ends == kinds["terminal"]
        without_next = self.ends == kinds["truncated"]
        last = self.ends > 0
        # True for every row of an episode that is dropped whole: rows of an episode lie together.
        lengths = np.diff(np.flatnonzero(np.concatenate(([True], last))))
        unfinished = np.repeat(self.ends[last] == kinds["drop"], lengths)
        truncated = np.concatenate((without_next[1:], [False])) & ~last
        keep = np.flatnonzero(~without_next & ~unfinished)
        following = np.where(terminal, np.arange(len(last)), np.arange(len(last)) + 1)[keep]
        dropped = self.dropped | {
            "no_next_observation": int(without_next.sum()),
            "unfinished_episode": int(unfinished.sum()),
        }
        report = ConversionReport(
            events=self.n_read,
            episodes=int(last.sum()),
            transitions=len(keep),
            terminated=int(terminal.sum()),
            truncated=int(truncated[keep].sum()),
            single_event_episodes=int((lengths == 1).sum()),
            dropped={cause: count for cause, count in dropped.items() if count},
        )
        return Transitions(
            observations=self.observations[keep],
            next_observations=self.observations[following],
            actions=self.actions[keep],
            rewards=self.rewards[keep],
            terminated=terminal[keep],
            truncated=truncated[keep],
            episode_ids=self.episodes[keep],
            propensities=None if self.propensities is None else self.propensities[keep].astype(np.float32),
            observation_space=self.compiled.observation_space,
            action_space=self.compiled.action_space,
            report=report,
        )


def _read(scan: pl.LazyFrame, where: str) -> pl.DataFrame:
    try:
        raw = scan.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        msg = f"{where}: the log cannot be read: {error}"
        raise DataError(msg) from error
    if raw.is_empty():
        msg = f"{where}: the log has no rows; give one with at least one event"
        raise DataError(msg)
    return raw


def _count_dropped(raw: pl.DataFrame, causes: dict[str, pl.Expr]) -> dict[str, int]:
    counts: dict[str, int] = {}
    earlier: pl.Expr = pl.lit(False)
    for cause, expression in causes.items():
        counts[cause] = int(raw.select((expression & ~earlier).sum()).item())
        earlier = earlier | expression
    return counts


def _matrix(frame: pl.DataFrame, prefix: str, dtype: type[np.float32]) -> npt.NDArray[np.float32]:
    columns = [name for name in frame.columns if name.startswith(prefix)]
    return np.ascontiguousarray(frame.select(columns).to_numpy(order="c"), dtype=dtype)
