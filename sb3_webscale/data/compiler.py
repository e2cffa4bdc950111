"""A rule compiled for one log: a lazy Polars plan, and the checks its rows must pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from gymnasium import spaces

from sb3_webscale.data.checks import ROW, Check
from sb3_webscale.data.columns import Columns
from sb3_webscale.data.decisions import CompiledColumn, compile_action, compile_propensity, compile_reward
from sb3_webscale.data.encodings import EncodedEntry, encode_entry
from sb3_webscale.data.episodes import END, EPISODE, EpisodePlan, compile_episode
from sb3_webscale.data.rules import Rule
from sb3_webscale.errors import RuleError

__all__ = ["CompiledRule", "compile_rule"]


@dataclass(frozen=True)
class CompiledRule:
    """What a rule means for a log with given columns. Nothing here goes row by row.

    :param columns: the log's columns that are read
    :param checks: what must hold for each row
    :param feature_names: name of each number of an observation
    :param observation_space: Box, float32, shape (number of features,)
    :param action_space: Discrete or Box
    """

    columns: tuple[str, ...]
    checks: tuple[Check, ...]
    feature_names: tuple[str, ...]
    observation_space: spaces.Box
    action_space: spaces.Space[Any]
    _entries: tuple[EncodedEntry, ...]
    _episode: EpisodePlan
    _action: CompiledColumn
    _reward: CompiledColumn
    _propensity: CompiledColumn
    _event_id: str | None

    def drop_causes(self) -> dict[str, pl.Expr]:
        """:return: cause to expression, True where a row is dropped for it; the first cause that holds counts"""
        causes: dict[str, pl.Expr] = {}
        if self._event_id is not None:
            causes["duplicate_event"] = ~pl.col(self._event_id).is_first_distinct()
        nulls = [entry.drop for entry in self._entries if entry.drop is not None]
        if nulls:
            causes["null_state"] = pl.any_horizontal(nulls)
        return causes

    def plan(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """
        :param frame: rows of the log with :data:`~sb3_webscale.data.checks.ROW`
        :return: the kept rows in order of episode and time: ``state_<i>`` and ``action_<i>``, ``reward``,
            ``propensity`` if there is one, :data:`EPISODE` and :data:`END`
        """
        frame = self._episode.before_filtering(frame)
        causes = self.drop_causes()
        if causes:
            frame = frame.filter(~pl.any_horizontal(list(causes.values())))
        ordered = self._episode.apply(frame)
        prepared = [expression for entry in self._entries for expression in entry.prepared]
        features = [feature.expression for entry in self._entries for feature in entry.features]
        return ordered.with_columns(prepared).select(
            *(feature.alias(f"state_{i}") for i, feature in enumerate(features)),
            *(value.alias(f"action_{i}") for i, value in enumerate(self._action.values)),
            *(value.alias("reward") for value in self._reward.values),
            *(value.alias("propensity") for value in self._propensity.values),
            EPISODE,
            END,
        )


def compile_rule(rule: Rule, schema: pl.Schema, where: str) -> CompiledRule:
    """
    :param rule: the rule
    :param schema: the log's column names and types
    :param where: names the rule and the source in messages
    :return: the rule compiled for logs with these columns
    :raises RuleError: when a column is missing or has a type that the rule cannot use
    """
    columns = Columns(schema, where)
    if ROW in schema:
        msg = f"{where}: the log has a column {ROW!r}, a name that is reserved; rename it"
        raise RuleError(msg)
    episode = compile_episode(rule.episode, columns)
    entries = tuple(encode_entry(entry, index, columns) for index, entry in enumerate(rule.state))
    action, action_space = compile_action(rule, columns)
    reward = compile_reward(rule, columns)
    propensity = compile_propensity(rule, columns)
    parts: list[EpisodePlan | EncodedEntry | CompiledColumn] = [episode, *entries, action, reward, propensity]
    checks = [check for part in parts for check in part.checks]
    names = [name for part in parts for name in part.columns]
    if rule.event_id is not None:
        names.append(columns.one(rule.event_id, "event_id"))
        missing = pl.col(rule.event_id).is_null()
        fix = "give every event its id, or leave event_id out"
        checks.append(Check("event_id", f"column {rule.event_id!r}", pl.col(rule.event_id), missing, "null", fix))
    features = [feature for entry in entries for feature in entry.features]
    low = np.array([feature.low for feature in features], dtype=np.float32)
    high = np.array([feature.high for feature in features], dtype=np.float32)
    return CompiledRule(
        columns=tuple(dict.fromkeys(names)),
        checks=tuple(checks),
        feature_names=tuple(feature.name for feature in features),
        observation_space=spaces.Box(low, high, dtype=np.float32),
        action_space=action_space,
        _entries=entries,
        _episode=episode,
        _action=action,
        _reward=reward,
        _propensity=propensity,
        _event_id=rule.event_id,
    )
