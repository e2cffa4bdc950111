"""Where episodes start and how they end, case by case, on logs small enough to check by eye.

Each row's state is its own number, so an observation says which row it is.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sb3_webscale.data import (
    DiscreteAction,
    Episode,
    NumericState,
    Propensity,
    Reward,
    Rule,
    RuleConverter,
    Transitions,
)
from sb3_webscale.errors import DataError

START = datetime(2020, 1, 1, tzinfo=timezone.utc)


def convert(tmp_path: Path, columns: dict[str, Any], episode: Episode, **parts: Any) -> Transitions:
    n = len(columns["time"])
    frame = pl.DataFrame({"row": list(range(n)), "action": [0] * n, "reward": [float(i) for i in range(n)]} | columns)
    frame.write_parquet(tmp_path / "log.parquet")
    rule = Rule(
        name="small",
        episode=episode,
        state=parts.pop("state", (NumericState(columns=("row",)),)),
        action=DiscreteAction(column="action", n=2),
        reward=Reward(column="reward"),
        **parts,
    )
    return RuleConverter(rule).convert(tmp_path / "log.parquet")


def steps(transitions: Transitions) -> list[tuple[int, int, str]]:
    """(row, next row, end) of each transition; the end is T, t or nothing."""
    ends = ["T" if a else "t" if b else "" for a, b in zip(transitions.terminated, transitions.truncated, strict=True)]
    rows, following = transitions.observations[:, 0], transitions.next_observations[:, 0]
    return [(int(a), int(b), end) for a, b, end in zip(rows, following, ends, strict=True)]


GAPPED = {"user": ["u"] * 5, "time": [0, 1, 10, 11, 12]}


def test_gap_closes_a_session_and_the_log_leaves_the_last_open(tmp_path: Path) -> None:
    episode = Episode(key="user", order_by="time", session_gap=5, closed="terminal")  # type: ignore[arg-type]
    transitions = convert(tmp_path, GAPPED, episode)
    assert steps(transitions) == [(0, 1, ""), (1, 1, "T"), (2, 3, ""), (3, 4, "t")]
    assert transitions.report.dropped == {"no_next_observation": 1}
    assert (transitions.report.terminated, transitions.report.truncated) == (1, 1)


def test_closed_sessions_can_be_truncations(tmp_path: Path) -> None:
    episode = Episode(key=("user",), order_by="time", session_gap=5, closed="truncated")
    assert steps(convert(tmp_path, GAPPED, episode)) == [(0, 1, "t"), (2, 3, ""), (3, 4, "t")]


@pytest.mark.parametrize(
    ("unfinished", "expected", "dropped"),
    [
        ("truncated", [(2, 3, ""), (3, 4, "t")], {"no_next_observation": 1}),
        ("terminal", [(2, 3, ""), (3, 4, ""), (4, 4, "T")], {}),
        ("drop", [], {"unfinished_episode": 3}),
    ],
)
def test_policies_for_unfinished_sessions(
    tmp_path: Path, unfinished: Any, expected: list[tuple[int, int, str]], dropped: dict[str, int]
) -> None:
    episode = Episode(key=("user",), order_by="time", session_gap=5, closed="terminal", unfinished=unfinished)
    transitions = convert(tmp_path, GAPPED, episode)
    assert steps(transitions)[2:] == expected
    assert transitions.report.dropped == dropped


def test_a_pause_exactly_as_long_as_the_gap_does_not_end_a_session(tmp_path: Path) -> None:
    episode = Episode(key=("user",), order_by="time", session_gap=9, closed="terminal")
    assert steps(convert(tmp_path, GAPPED, episode))[1] == (1, 2, "")


def test_a_session_is_closed_by_the_end_of_the_log_of_all_users(tmp_path: Path) -> None:
    """User a was last seen long before the log stops, user b just before."""
    columns = {"user": ["a", "a", "b", "b"], "time": [0, 1, 99, 100]}
    episode = Episode(key=("user",), order_by="time", session_gap=5, closed="terminal")
    assert steps(convert(tmp_path, columns, episode)) == [(0, 1, ""), (1, 1, "T"), (2, 3, "t")]


def test_next_state_never_crosses_a_key(tmp_path: Path) -> None:
    columns = {"user": ["a", "b", "a", "b"], "time": [0, 1, 2, 3]}
    episode = Episode(key=("user",), order_by="time", unfinished="terminal")
    assert steps(convert(tmp_path, columns, episode)) == [(0, 2, ""), (2, 2, "T"), (1, 3, ""), (3, 3, "T")]


def test_rows_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    columns = {"user": ["a"] * 4, "time": [3, 0, 2, 1]}
    transitions = convert(tmp_path, columns, Episode(key=("user",), order_by="time"))
    assert steps(transitions) == [(1, 3, ""), (3, 2, ""), (2, 0, "t")]


def test_equal_times_keep_the_order_of_the_log_unless_a_tie_column_says_otherwise(tmp_path: Path) -> None:
    columns = {"user": ["a"] * 3, "time": [0, 0, 0], "sequence": [3, 2, 1]}
    plain = convert(tmp_path, columns, Episode(key=("user",), order_by="time"))
    assert steps(plain) == [(0, 1, ""), (1, 2, "t")]
    tied = convert(tmp_path, columns, Episode(key=("user",), order_by="time", tie_by=("sequence",)))
    assert steps(tied) == [(2, 1, ""), (1, 0, "t")]


def test_flags_end_episodes_inside_one_key(tmp_path: Path) -> None:
    """A robot log: one key, episodes cut by flags. A truncated row has no next observation of its own episode."""
    columns = {
        "user": ["arm"] * 7,
        "time": [0, 1, 2, 3, 4, 5, 6],
        "done": [0, 1, 0, 0, 0, 0, 0],
        "timeout": [False, False, False, False, True, False, False],
    }
    episode = Episode(key=("user",), order_by="time", terminated="done", truncated="timeout")
    transitions = convert(tmp_path, columns, episode)
    assert steps(transitions) == [(0, 1, ""), (1, 1, "T"), (2, 3, ""), (3, 4, "t"), (5, 6, "t")]
    assert transitions.report.dropped == {"no_next_observation": 2}
    assert transitions.report.episodes == 3


def test_terminated_counts_before_truncated(tmp_path: Path) -> None:
    columns = {"user": ["a"] * 2, "time": [0, 1], "done": [False, True], "timeout": [False, True]}
    episode = Episode(key=("user",), order_by="time", terminated="done", truncated="timeout")
    assert steps(convert(tmp_path, columns, episode)) == [(0, 1, ""), (1, 1, "T")]


def test_reward_belongs_to_the_action_of_its_own_row(tmp_path: Path) -> None:
    transitions = convert(tmp_path, GAPPED, Episode(key=("user",), order_by="time", unfinished="terminal"))
    assert transitions.rewards.tolist() == transitions.observations[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_one_event_sessions_are_counted(tmp_path: Path) -> None:
    columns = {"user": ["a", "b", "c"], "time": [0, 1, 100]}
    episode = Episode(key=("user",), order_by="time", session_gap=5, closed="terminal")
    transitions = convert(tmp_path, columns, episode)
    assert steps(transitions) == [(0, 0, "T"), (1, 1, "T")]
    assert transitions.report.single_event_episodes == 3
    assert transitions.report.episodes == 3


def test_an_unfinished_session_of_one_event_leaves_the_session_before_it_alone(tmp_path: Path) -> None:
    columns = {"user": ["a", "a", "b"], "time": [0, 1, 100]}
    episode = Episode(key=("user",), order_by="time", session_gap=5, closed="terminal")
    assert steps(convert(tmp_path, columns, episode)) == [(0, 1, ""), (1, 1, "T")]


def test_repeated_events_are_dropped_and_counted(tmp_path: Path) -> None:
    columns = {"user": ["a"] * 5, "time": [0, 1, 1, 2, 0], "id": ["x", "y", "y", "z", "x"]}
    transitions = convert(tmp_path, columns, Episode(key=("user",), order_by="time"), event_id="id")
    assert steps(transitions) == [(0, 1, ""), (1, 3, "t")]
    assert transitions.report.dropped == {"duplicate_event": 2, "no_next_observation": 1}


def test_rows_dropped_for_a_null_are_counted_once(tmp_path: Path) -> None:
    columns = {"user": ["a"] * 4, "time": [0, 1, 2, 2], "x": [1.0, None, 3.0, None], "id": [0, 1, 2, 2]}
    state = (NumericState(columns=("row",)), NumericState(columns=("x",), nulls="drop"))
    episode = Episode(key=("user",), order_by="time", unfinished="terminal")
    transitions = convert(tmp_path, columns, episode, state=state, event_id="id")
    assert steps(transitions) == [(0, 2, ""), (2, 2, "T")]
    assert transitions.report.dropped == {"duplicate_event": 1, "null_state": 1}


def test_a_dropped_row_still_tells_when_the_log_stops(tmp_path: Path) -> None:
    columns = {"user": ["a", "a", "b"], "time": [0, 1, 100], "x": [1.0, 1.0, None]}
    state = (NumericState(columns=("row",)), NumericState(columns=("x",), nulls="drop"))
    episode = Episode(key=("user",), order_by="time", session_gap=5, closed="terminal")
    assert steps(convert(tmp_path, columns, episode, state=state)) == [(0, 1, ""), (1, 1, "T")]


def test_a_log_of_which_nothing_is_left_is_an_error(tmp_path: Path) -> None:
    state = (NumericState(columns=("x",), nulls="drop"),)
    columns = {"user": ["a"], "time": [0], "x": pl.Series([None], dtype=pl.Float64)}
    with pytest.raises(DataError, match=r"every row was dropped \(\{'null_state': 1\}\)"):
        convert(tmp_path, columns, Episode(key=("user",), order_by="time"), state=state)


def test_only_one_event_gives_no_transition_but_is_accounted_for(tmp_path: Path) -> None:
    transitions = convert(tmp_path, {"user": ["a"], "time": [0]}, Episode(key=("user",), order_by="time"))
    assert len(transitions) == 0
    assert transitions.observations.shape == (0, 1)
    assert transitions.report.as_dict() == {
        "events": 1,
        "episodes": 1,
        "transitions": 0,
        "terminated": 0,
        "truncated": 0,
        "single_event_episodes": 1,
        "dropped.no_next_observation": 1,
    }


def test_time_stamps_dates_and_durations(tmp_path: Path) -> None:
    times = [START, START + timedelta(minutes=30), START + timedelta(minutes=61)]
    episode = Episode(key="user", order_by="time", session_gap="30m", unfinished="terminal")  # type: ignore[arg-type]
    transitions = convert(tmp_path, {"user": ["a"] * 3, "time": times}, episode)
    assert steps(transitions) == [(0, 1, "t"), (2, 2, "T")]
    dates = [time.date() + timedelta(days=i) for i, time in enumerate([START, START, START + timedelta(days=3)])]
    episode = Episode(key="user", order_by="time", session_gap="1d", unfinished="terminal")  # type: ignore[arg-type]
    assert steps(convert(tmp_path, {"user": ["a"] * 3, "time": dates}, episode)) == [(0, 1, "t"), (2, 2, "T")]


def test_propensities_follow_their_rows(tmp_path: Path) -> None:
    columns = GAPPED | {"p": [0.1, 0.2, 0.3, 0.4, 0.5]}
    episode = Episode(key=("user",), order_by="time")
    transitions = convert(tmp_path, columns, episode, propensity=Propensity(column="p"))
    assert transitions.propensities is not None
    assert transitions.propensities.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_events_keep_the_row_without_next_observation(tmp_path: Path) -> None:
    convert(tmp_path, GAPPED, Episode(key=("user",), order_by="time"))
    rule = Rule(
        name="small",
        episode=Episode(key=("user",), order_by="time", session_gap=5),
        state=(NumericState(columns=("row",)),),
        action=DiscreteAction(column="action", n=2),
        reward=Reward(column="reward"),
    )
    events = RuleConverter(rule).logged_events(tmp_path / "log.parquet")
    assert events.observations[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert events.episode_ids.tolist() == [0, 0, 1, 1, 1]
    assert events.propensities is None
