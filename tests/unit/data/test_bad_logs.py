"""Logs that break a rule: each refusal names rule, source, key, column, value, first row and fix."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sb3_webscale.data import Rule, RuleConverter
from sb3_webscale.data.rule_file import parse_rule
from sb3_webscale.errors import DataError, RuleError

RULE: dict[str, Any] = {
    "name": "bad",
    "episode": {"key": ["user"], "order_by": "time", "session_gap": 5},
    "state": [
        {"columns": ["x"], "encoding": "numeric"},
        {"columns": ["position"], "encoding": "one_hot", "values": [1, 2]},
        {"columns": ["page"], "encoding": "hash", "buckets": 4},
    ],
    "action": {"column": "item", "space": "discrete", "n": 3},
    "reward": {"column": "click"},
    "propensity": {"column": "p"},
}
LOG: dict[str, Any] = {
    "user": ["a", "a", "a", "b"],
    "time": [0, 1, 2, 3],
    "x": [0.1, 0.2, 0.3, 0.4],
    "position": [1, 2, 1, 2],
    "page": ["p", "q", "p", "q"],
    "item": [0, 1, 2, 0],
    "click": [0.0, 1.0, 0.0, 1.0],
    "p": [0.5, 0.5, 0.5, 0.5],
    "flag": [0, 0, 0, 1],
    "price": [1.0, 2.0, 3.0, 4.0],
}


def convert(tmp_path: Path, log: dict[str, Any], rule: dict[str, Any]) -> None:
    pl.DataFrame(LOG | log, strict=False).write_parquet(tmp_path / "log.parquet")
    converter = RuleConverter(parse_rule(RULE | rule, where="test"))
    converter.convert(tmp_path / "log.parquet")


def message(tmp_path: Path, log: dict[str, Any], rule: dict[str, Any], error: type[Exception]) -> str:
    with pytest.raises(error) as caught:
        convert(tmp_path, log, rule)
    text = str(caught.value)
    assert "rule 'bad'" in text
    assert "log.parquet" in text
    return text


def test_the_unbroken_log_converts(tmp_path: Path) -> None:
    convert(tmp_path, {}, {})


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("log", "rule", "parts"),
    [
        ({"x": [0.1, None, None, 0.4]}, {}, ["state[0]", "'x' has null in 2 rows", "row 2", "nulls: drop"]),
        ({"page": ["p", "q", None, "q"]}, {}, ["state[2]", "'page' has null in 1 row,", "row 3"]),
        ({"position": [1, None, 1, 2]}, {}, ["state[1]", "'position' has null", "row 2"]),
        ({"x": [0.1, NAN, 0.3, 0.4]}, {}, ["'x'", "not finite", "row 2", "value nan"]),
        ({"x": [0.1, 0.2, -INF, 0.4]}, {}, ["'x'", "not finite", "row 3", "value -inf"]),
        ({"x": [0.1, 0.2, 1e39, 0.4]}, {}, ["'x'", "not finite", "32-bit", "value 1e+39"]),
        ({"position": [1, 2, 7, 2]}, {}, ["'position'", "outside [1, 2]", "value 7", "unknown: zeros"]),
        (
            {"item": [0, 1, 3, 0]},
            {},
            ["action.column", "'item'", "Discrete(3)", "0 to 2", "row 3 (value 3)", "action.n"],
        ),
        ({"item": [0, -1, 2, 0]}, {}, ["'item'", "outside the space", "row 2 (value -1)"]),
        ({"item": [0.0, 1.5, 2.0, 0.0]}, {}, ["'item'", "no integer", "row 2 (value 1.5)"]),
        ({"item": [0.0, NAN, 2.0, 0.0]}, {}, ["'item'", "row 2 (value nan)"]),
        ({"item": [0.0, INF, 2.0, 0.0]}, {}, ["'item'", "row 2 (value inf)"]),
        ({"item": [0, None, 2, 0]}, {}, ["'item' has null", "row 2"]),
        ({"click": [0.0, NAN, 0.0, 1.0]}, {}, ["reward.column", "'click'", "not finite", "row 2"]),
        ({"click": [0.0, 1.0, INF, 1.0]}, {}, ["'click'", "not finite", "row 3 (value inf)"]),
        ({"click": [0.0, 1.0, None, 1.0]}, {}, ["'click' has null", "row 3"]),
        (
            {},
            {"reward": {"expression": "1 / flag"}},
            ["reward.expression", "'1 / flag'", "not finite", "row 1 (value inf)"],
        ),
        ({}, {"reward": {"expression": "log(-x)"}}, ["'log(-x)'", "not finite", "value nan"]),
        ({"price": [1.0, None, 3.0, 4.0]}, {"reward": {"expression": "max(price, 0)"}}, ["null", "row 2"]),
        ({"p": [0.5, 0.0, 0.5, 0.5]}, {}, ["propensity.column", "'p'", "(0, 1]", "row 2 (value 0.0)"]),
        ({"p": [0.5, 1e-60, 0.5, 0.5]}, {}, ["'p'", "(0, 1]", "row 2 (value 1e-60)"]),
        ({"p": [0.5, 0.5, 1.5, 0.5]}, {}, ["'p'", "(0, 1]", "row 3 (value 1.5)"]),
        ({"p": [0.5, 0.5, NAN, 0.5]}, {}, ["'p'", "(0, 1]", "row 3 (value nan)"]),
        ({"p": [0.5, 0.5, None, 0.5]}, {}, ["'p' has null", "row 3"]),
        ({"user": ["a", None, "a", "b"]}, {}, ["episode", "'user' has null", "row 2"]),
        ({"time": [0, 1, None, 3]}, {}, ["episode", "'time' has null", "row 3"]),
        (
            {"time": pl.Series([0, 1, 2**63, 3], dtype=pl.UInt64)},
            {},
            ["episode.order_by", "'time'", "above 2**63 - 1", "row 3 (value 9223372036854775808)"],
        ),
        ({"time": [0.0, NAN, 2.0, 3.0]}, {}, ["episode.order_by", "'time'", "not finite", "row 2"]),
        (
            {"flag": [0, 2, 0, 1]},
            {"episode": RULE["episode"] | {"terminated": "flag"}},
            ["episode.terminated", "'flag'", "other than 0 and 1", "row 2 (value 2)"],
        ),
        (
            {"flag": [0, None, 0, 1]},
            {"episode": RULE["episode"] | {"truncated": "flag"}},
            ["episode.truncated", "'flag' has null", "row 2"],
        ),
        ({"flag": [0, None, 0, 1]}, {"event_id": "flag"}, ["event_id", "'flag' has null", "row 2"]),
        (
            {},
            {"action": {"columns": ["x", "price"], "space": "box", "low": 0, "high": [1, 3]}},
            ["action.columns", "'price'", "[0.0, 3.0]", "row 4 (value 4.0)", "action.high"],
        ),
        (
            {"price": [1.0, NAN, 3.0, 4.0]},
            {"action": {"columns": ["price"], "space": "box", "low": 0, "high": 9}},
            ["'price'", "row 2 (value nan)"],
        ),
        (
            {},
            {"state": [{"columns": ["price"], "encoding": "numeric", "scale": {"low": 0, "high": 3}}]},
            ["'price'", "outside [0.0, 3.0]", "row 4", "scale.clip"],
        ),
        (
            {"price": [1.0, INF, 3.0, 4.0]},
            {"state": [{"columns": ["price"], "encoding": "numeric", "scale": {"low": 0, "high": 3, "clip": True}}]},
            ["'price'", "not finite", "row 2 (value inf)"],
        ),
    ],
)
def test_forbidden_values(tmp_path: Path, log: dict[str, Any], rule: dict[str, Any], parts: list[str]) -> None:
    text = message(tmp_path, log, rule, DataError)
    for part in parts:
        assert part in text


def state(**entry: Any) -> dict[str, Any]:
    return {"state": [entry]}


@pytest.mark.parametrize(
    ("log", "rule", "parts"),
    [
        ({}, {"reward": {"column": "clik"}}, ["reward.column", "'clik'", "did you mean 'click'?"]),
        ({}, {"reward": {"expression": "clik * 2"}}, ["reward.expression", "did you mean 'click'?"]),
        ({}, {"reward": {"expression": "import os"}}, ["reward.expression", "cannot be read"]),
        ({}, {"reward": {"column": "page"}}, ["reward.column", "'page' holds String"]),
        ({}, {"propensity": {"column": "prob"}}, ["propensity.column", "no column 'prob'"]),
        ({}, {"action": {"column": "page", "space": "discrete", "n": 3}}, ["action.column", "'page' holds String"]),
        ({}, {"action": {"column": "itm", "space": "discrete", "n": 3}}, ["did you mean 'item'?"]),
        ({}, {"event_id": "evnt"}, ["event_id", "no column 'evnt'"]),
        ({}, state(columns=["y*"], encoding="numeric"), ["state[0]", "glob 'y*' matches no column"]),
        ({}, state(columns=["positon"], encoding="numeric"), ["did you mean 'position'?"]),
        ({}, state(columns=["x", "x*"], encoding="numeric"), ["'x' is named twice"]),
        ({}, state(columns=["page"], encoding="numeric"), ["'page' holds String"]),
        ({}, state(columns=["x"], encoding="hash", buckets=2), ["'x' holds Float64", "texts, integers and booleans"]),
        ({}, state(columns=["page"], encoding="one_hot", values=[1]), ["1 cannot occur in column 'page'", "String"]),
        ({}, state(columns=["position"], encoding="one_hot", values=["1"]), ["'1' cannot occur in column 'position'"]),
        ({}, state(columns=["x"], encoding="numeric", nulls={"fill": "zero"}), ["nulls.fill = 'zero'"]),
        (
            {},
            state(columns=["position"], encoding="one_hot", values=[1, 2], nulls={"fill": 3}),
            ["nulls.fill = 3", "[1, 2]"],
        ),
        (
            {"user": [["a"], ["a"], ["b"], ["b"]]},
            {},
            ["episode.key", "'user' holds List(String)", "a text, a number or a time"],
        ),
        ({}, {"episode": {"key": ["usr"], "order_by": "time"}}, ["episode.key", "did you mean 'user'?"]),
        (
            {},
            {"episode": {"key": ["user"], "order_by": "page"}},
            ["episode.order_by", "'page' holds String", "ISO 8601"],
        ),
        (
            {},
            {"episode": {"key": ["user"], "order_by": "time", "session_gap": "30m"}},
            ["episode.session_gap", "Int64", "a number"],
        ),
        (
            {"time": [datetime(2020, 1, day) for day in range(1, 5)]},
            {},
            ["episode.session_gap = 5.0", "a duration such as '30m'"],
        ),
        (
            {},
            {"episode": {"key": ["user"], "order_by": "time", "terminated": "page"}},
            ["episode.terminated", "String"],
        ),
        (
            {},
            {"action": {"columns": ["x", "price"], "space": "box", "low": [0, 0, 0], "high": 9}},
            ["action.low has 3 values", "2 columns"],
        ),
        (
            {},
            {"action": {"columns": ["x"], "space": "box", "low": 1, "high": 1}},
            ["action.low = 1.0 is not below action.high = 1.0"],
        ),
        ({"__row__": [1, 2, 3, 4]}, {}, ["'__row__'", "reserved"]),
    ],
)
def test_rules_that_do_not_fit_the_log(
    tmp_path: Path, log: dict[str, Any], rule: dict[str, Any], parts: list[str]
) -> None:
    text = message(tmp_path, log, rule, RuleError)
    for part in parts:
        assert part in text


def test_empty_log(tmp_path: Path) -> None:
    pl.DataFrame(LOG).clear().write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError, match="the log has no rows"):
        RuleConverter(Rule.model_validate(RULE)).convert(tmp_path / "log.parquet")


def test_values_in_a_csv_are_refused_alike(tmp_path: Path) -> None:
    pl.DataFrame(LOG | {"item": [0, 1, 9, 0]}).write_csv(tmp_path / "log.csv")
    with pytest.raises(DataError, match=r"'item' has an action outside the space.*row 3 \(value 9\)"):
        RuleConverter(Rule.model_validate(RULE)).convert(tmp_path / "log.csv")
