"""The columnar plan against a plain converter that goes row by row, on random logs.

The logs are shuffled, hold repeated events, equal times, one-event sessions, nulls and flags.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sb3_webscale.data import (
    DiscreteAction,
    Episode,
    HashState,
    NumericState,
    OneHotState,
    Propensity,
    Reward,
    Rule,
    RuleConverter,
)
from sb3_webscale.data.hashing import bucket_of

GAP = 4
BUCKETS = 3
SCHEMA = {
    "user": pl.String,
    "device": pl.Int64,
    "time": pl.Int64,
    "x": pl.Float64,
    "position": pl.Int64,
    "item": pl.Int64,
    "p": pl.Float64,
    "done": pl.Boolean,
    "lost": pl.Boolean,
    "event": pl.Int64,
}


@dataclass
class Reference:
    """What a person would write: one row after the other, in plain Python."""

    rule: Rule
    steps: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    episodes: int = 0

    def encode(self, row: dict[str, Any]) -> tuple[float, ...]:
        one_hot = [1.0 if row["position"] == value else 0.0 for value in (1, 2)]
        hashed = [1.0 if bucket_of(row["user"], BUCKETS) == bucket else 0.0 for bucket in range(BUCKETS)]
        return (float(np.float32(row["x"])), *one_hot, *hashed)

    def convert(self, rows: list[dict[str, Any]]) -> None:
        log_end = max(row["time"] for row in rows)
        kept, seen = [], set()
        for place, row in enumerate(rows):
            if row["event"] in seen:
                self.dropped["duplicate_event"] += 1
            elif row["x"] is None:
                self.dropped["null_state"] += 1
            else:
                kept.append((row["user"], row["device"], row["time"], place, row))
            seen.add(row["event"])
        session: list[dict[str, Any]] = []
        for *_, row in sorted(kept, key=lambda item: item[:4]):
            if session and self.starts_anew(session[-1], row):
                self.close(session, row, log_end)
                session = []
            session.append(row)
        if session:
            self.close(session, None, log_end)

    def starts_anew(self, before: dict[str, Any], row: dict[str, Any]) -> bool:
        if (before["user"], before["device"]) != (row["user"], row["device"]):
            return True
        return bool(before["done"] or before["lost"] or row["time"] - before["time"] > GAP)

    def close(self, session: list[dict[str, Any]], following: dict[str, Any] | None, log_end: int) -> None:
        self.episodes += 1
        last = session[-1]
        same = following is not None and (following["user"], following["device"]) == (last["user"], last["device"])
        if last["done"]:
            policy = "terminal"
        elif last["lost"]:
            policy = "truncated"
        elif same or log_end - last["time"] > GAP:
            policy = self.rule.episode.closed
        else:
            policy = self.rule.episode.unfinished
        if policy == "drop":
            self.dropped["unfinished_episode"] += len(session)
            return
        for place, row in enumerate(session):
            if place + 1 < len(session):
                cut = policy == "truncated" and place + 2 == len(session)
                self.step(row, session[place + 1], False, cut)
            elif policy == "terminal":
                self.step(row, row, True, False)
            else:
                self.dropped["no_next_observation"] += 1

    def step(self, row: dict[str, Any], following: dict[str, Any], terminated: bool, truncated: bool) -> None:
        reward = float(np.float32(row["item"] * 0.5 - row["position"]))
        self.steps.append(
            (
                self.encode(row),
                self.encode(following),
                row["item"],
                reward,
                terminated,
                truncated,
                self.episodes - 1,
                float(np.float32(row["p"])),
            )
        )


rows = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["a", "b", "ç"]),
        "device": st.integers(0, 1),
        "time": st.integers(0, 20),
        "x": st.one_of(st.none(), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)),
        "position": st.integers(1, 2),
        "item": st.integers(0, 4),
        "p": st.floats(0.01, 1.0),
        "done": st.integers(0, 5).map(lambda number: number == 0),
        "lost": st.integers(0, 5).map(lambda number: number == 0),
        "event": st.integers(0, 30),
    }
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(rows, min_size=1, max_size=40),
    st.sampled_from(["terminal", "truncated"]),
    st.sampled_from(["terminal", "truncated", "drop"]),
    st.booleans(),
)
def test_agrees_with_the_row_by_row_converter(
    log: list[dict[str, Any]], closed: Any, unfinished: Any, calm: bool
) -> None:
    if calm:
        # Without flags only pauses and the end of the log end sessions.
        log = [row | {"done": False, "lost": False} for row in log]
    rule = Rule(
        name="random",
        episode=Episode(
            key=("user", "device"),
            order_by="time",
            session_gap=GAP,
            terminated="done",
            truncated="lost",
            closed=closed,
            unfinished=unfinished,
        ),
        state=(
            NumericState(columns=("x",), nulls="drop"),
            OneHotState(columns=("position",), values=(1, 2)),
            HashState(columns=("user",), buckets=BUCKETS),
        ),
        action=DiscreteAction(column="item", n=5),
        reward=Reward(expression="item * 0.5 - position"),
        propensity=Propensity(column="p"),
        event_id="event",
    )
    reference = Reference(rule)
    reference.convert(log)
    if sum(reference.dropped[cause] for cause in ("duplicate_event", "null_state")) == len(log):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        pl.DataFrame(log, schema=SCHEMA).write_parquet(path)
        transitions = RuleConverter(rule).convert(path)
        events = RuleConverter(rule).logged_events(path)
    assert transitions.propensities is not None
    columns = (
        map(tuple, transitions.observations.tolist()),
        map(tuple, transitions.next_observations.tolist()),
        transitions.actions.tolist(),
        transitions.rewards.tolist(),
        transitions.terminated.tolist(),
        transitions.truncated.tolist(),
        transitions.episode_ids.tolist(),
        transitions.propensities.tolist(),
    )
    assert list(zip(*columns, strict=True)) == reference.steps
    report = transitions.report
    assert report.dropped == {cause: count for cause, count in reference.dropped.items() if count}
    assert report.episodes == reference.episodes
    assert report.events == len(log) == report.transitions + sum(report.dropped.values())
    filtered = reference.dropped["duplicate_event"] + reference.dropped["null_state"]
    assert len(events) == len(log) - filtered


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_of_rows_in_the_log_does_not_matter(order: list[int]) -> None:
    """Unless times are equal: then the order of the log decides, and these are not."""
    frame = pl.DataFrame(
        {"user": ["a", "b"] * 6, "time": range(12), "item": range(12), "r": [float(i) for i in range(12)]}
    )
    rule = Rule(
        name="order",
        episode=Episode(key=("user",), order_by="time", session_gap=3, closed="terminal"),
        state=(NumericState(columns=("r",)),),
        action=DiscreteAction(column="item", n=12),
        reward=Reward(column="r"),
    )
    with tempfile.TemporaryDirectory() as folder:
        frame.write_parquet(Path(folder) / "a.parquet")
        frame[order].write_parquet(Path(folder) / "b.parquet")
        first, second = (RuleConverter(rule).convert(Path(folder) / f"{name}.parquet") for name in "ab")
    assert first.report == second.report
    assert np.array_equal(first.observations, second.observations)
    assert np.array_equal(first.next_observations, second.next_observations)
