"""Rules: one object from YAML and from Python, and refusals that name the key, the value and the fix."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from sb3_webscale.data import (
    BoxAction,
    DiscreteAction,
    Episode,
    Fill,
    HashState,
    MeanScale,
    NumericState,
    OneHotState,
    Propensity,
    RangeScale,
    Reward,
    Rule,
)
from sb3_webscale.errors import RuleError

FULL = """
name: shop
episode:
  key: [user, device]
  order_by: time
  tie_by: [sequence]
  session_gap: 1h30m
  terminated: bought
  truncated: lost
  closed: terminal
  unfinished: drop
state:
  - {columns: [position], encoding: one_hot, values: [1, 2, 3], unknown: zeros}
  - {columns: [user], encoding: hash, buckets: 8, nulls: {fill: nobody}}
  - {columns: ["price_*"], encoding: numeric, scale: {mean: 10.0, std: 2.0}, nulls: drop}
  - {columns: [age], encoding: numeric, scale: {low: 0, high: 100, clip: true}}
action: {column: item, space: discrete, n: 80}
reward: {expression: "click - 0.01 * position"}
propensity: {column: p}
event_id: event
"""

MINIMAL = """
name: robot
episode: {key: run, order_by: step}
state: [{columns: "joint_*", encoding: numeric}]
action: {columns: [torque], space: box, low: -1.0, high: 1.0}
reward: {column: reward}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rule.yml"
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_equals_python(tmp_path: Path) -> None:
    built = Rule(
        name="shop",
        episode=Episode(
            key=("user", "device"),
            order_by="time",
            tie_by=("sequence",),
            session_gap=timedelta(minutes=90),
            terminated="bought",
            truncated="lost",
            closed="terminal",
            unfinished="drop",
        ),
        state=(
            OneHotState(columns=("position",), values=(1, 2, 3), unknown="zeros"),
            HashState(columns=("user",), buckets=8, nulls=Fill(fill="nobody")),
            NumericState(columns=("price_*",), scale=MeanScale(mean=10.0, std=2.0), nulls="drop"),
            NumericState(columns=("age",), scale=RangeScale(low=0, high=100, clip=True)),
        ),
        action=DiscreteAction(column="item", n=80),
        reward=Reward(expression="click - 0.01 * position"),
        propensity=Propensity(column="p"),
        event_id="event",
    )
    read = Rule.from_yaml(write(tmp_path, FULL))
    assert read == built
    assert read.canonical() == built.canonical()
    assert hash(read) == hash(built)


def test_one_name_stands_for_a_list_of_one(tmp_path: Path) -> None:
    rule = Rule.from_yaml(write(tmp_path, MINIMAL))
    assert rule.episode.key == ("run",)
    assert rule.state[0].columns == ("joint_*",)
    assert isinstance(rule.action, BoxAction)


def test_defaults_take_no_end_for_terminal(tmp_path: Path) -> None:
    episode = Rule.from_yaml(write(tmp_path, MINIMAL)).episode
    assert (episode.closed, episode.unfinished) == ("truncated", "truncated")


def test_canonical_text_reads_back(tmp_path: Path) -> None:
    rule = Rule.from_yaml(write(tmp_path, FULL))
    assert Rule.model_validate_json(rule.canonical()) == rule


def test_a_changed_default_changes_the_canonical_text(tmp_path: Path) -> None:
    one = Rule.from_yaml(write(tmp_path, MINIMAL)).canonical()
    other = Rule.from_yaml(write(tmp_path, MINIMAL.replace("order_by: step", "order_by: step, closed: terminal")))
    assert one != other.canonical()


def test_rules_do_not_change(tmp_path: Path) -> None:
    rule = Rule.from_yaml(write(tmp_path, MINIMAL))
    with pytest.raises(ValidationError, match="frozen"):
        rule.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("order_by: time", "oder_by: time", ["episode", "'oder_by'", "did you mean 'order_by'?"]),
        ("propensity:", "propensty:", ["'propensty'", "did you mean 'propensity'?"]),
        ("buckets: 8", "bucket: 8", ["state[1]", "'bucket'", "did you mean 'buckets'?"]),
        ("encoding: hash", "encoding: hsh", ["state[1].encoding = 'hsh'", "did you mean 'hash'?"]),
        ("encoding: hash, ", "", ["state[1].encoding", "required"]),
        ("space: discrete", "space: discret", ["action.space = 'discret'", "did you mean 'discrete'?"]),
        ("n: 80", "n: 0", ["action.n = 0", "greater than or equal to 1"]),
        ("n: 80", "n: 99999999999999999999", ["action.n = 99999999999999999999", "less than"]),
        ("n: 80", "n: many", ["action.n = 'many'", "integer"]),
        ("buckets: 8", "buckets: 0", ["state[1].buckets = 0"]),
        ("std: 2.0", "std: 0", ["state[2].scale", "std = 0"]),
        ("low: 0, high: 100", "low: 5, high: 5", ["state[3].scale", "5.0 is not below high = 5.0"]),
        ("values: [1, 2, 3]", "values: [1, 2, 1]", ["state[0].values", "1 is listed twice"]),
        ("values: [1, 2, 3]", "values: []", ["state[0].values"]),
        ("session_gap: 1h30m", "session_gap: 30 minutes", ["episode.session_gap", "'30 minutes'", "'30m'"]),
        ("session_gap: 1h30m", "session_gap: -5", ["episode.session_gap", "not a positive pause"]),
        ("session_gap: 1h30m", "session_gap: 0s", ["episode.session_gap", "not a positive pause"]),
        ("session_gap: 1h30m", "session_gap: .nan", ["episode.session_gap", "not a positive pause"]),
        ("closed: terminal", "closed: end", ["episode.closed = 'end'", "'terminal' or 'truncated'"]),
        ("expression:", "column: click, expression:", ["reward", "not both"]),
        ('{expression: "click - 0.01 * position"}', "{}", ["reward", "either 'column' or 'expression'"]),
        ("name: shop", "", ["name: this key is required"]),
        ("key: [user, device]", "key: []", ["episode.key"]),
        ("name: shop", "name: shop\nname: other", ["'name' is given twice (line 3)"]),
        ("nulls: drop", "nulls: skip", ["state[2].nulls"]),
        ("nulls: {fill: nobody}", "nulls: {fil: nobody}", ["state[1].nulls", "did you mean 'fill'?"]),
        ("state:", "state: {", ["not valid YAML"]),
    ],
)
def test_refusals_name_file_key_value_and_fix(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    assert old in FULL
    path = write(tmp_path, FULL.replace(old, new, 1))
    with pytest.raises(RuleError) as caught:
        Rule.from_yaml(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


def test_every_wrong_key_is_listed(tmp_path: Path) -> None:
    text = FULL.replace("n: 80", "n: 0").replace("buckets: 8", "buckets: 0")
    with pytest.raises(RuleError) as caught:
        Rule.from_yaml(write(tmp_path, text))
    assert "action.n" in str(caught.value)
    assert "state[1].buckets" in str(caught.value)


def test_missing_file_is_named_with_the_working_directory() -> None:
    with pytest.raises(RuleError, match=r"nowhere\.yml.*working directory"):
        Rule.from_yaml("nowhere.yml")


@pytest.mark.parametrize("text", ["", "[1, 2]", "just text"])
def test_a_rule_is_a_mapping(tmp_path: Path, text: str) -> None:
    with pytest.raises(RuleError, match="a rule is a mapping"):
        Rule.from_yaml(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800.0), ("1h30m", 5400.0), ("500ms", 0.5), ("1d", 86400.0), ("1.5s", 1.5), ("2h 5s", 7205.0)],
)
def test_durations(text: str, seconds: float) -> None:
    episode = Episode(key="user", order_by="time", session_gap=text)  # type: ignore[arg-type]
    assert episode.session_gap == timedelta(seconds=seconds)


def test_a_number_is_a_gap_in_the_units_of_the_column() -> None:
    assert Episode(key=("run",), order_by="step", session_gap=5).session_gap == 5.0
