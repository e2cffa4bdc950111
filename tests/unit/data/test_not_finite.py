"""NaN and infinity are refused wherever they enter, also where later arithmetic would hide them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sb3_webscale.data import Rule, RuleConverter
from sb3_webscale.errors import DataError


def convert(tmp_path: Path, values: list[float], **changes: Any) -> Any:
    path = tmp_path / "log[1].parquet"
    n = len(values)
    pl.DataFrame({"user": [1] * n, "t": range(n), "r": values, "a": [0] * n, "s": [1.0] * n}).write_parquet(path)
    # A file that the brackets would stand for, were they taken for a pattern.
    pl.DataFrame({"user": [1], "t": [0], "r": [99.0], "a": [0], "s": [1.0]}).write_parquet(tmp_path / "log1.parquet")
    fields: dict[str, Any] = {
        "name": "rule",
        "episode": {"key": ["user"], "order_by": "t", "unfinished": "terminal"},
        "state": [{"columns": ["s"], "encoding": "numeric"}],
        "action": {"column": "a", "space": "discrete", "n": 2},
        "reward": {"column": "r"},
    }
    return RuleConverter(Rule.model_validate(fields | changes)).convert(str(path))


@pytest.mark.parametrize("expression", ["r", "max(r, 0)", "clip(r, 0, 1)", "where(r > 5, 1, 0)", "r > 5"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rewards(tmp_path: Path, expression: str, bad: float) -> None:
    with pytest.raises(DataError, match="not finite"):
        convert(tmp_path, [1.0, bad, 2.0], reward={"expression": expression})


def test_one_hot_states(tmp_path: Path) -> None:
    state = [{"columns": ["r"], "encoding": "one_hot", "values": [1.0, 2.0], "unknown": "zeros"}]
    with pytest.raises(DataError, match="not finite"):
        convert(tmp_path, [1.0, math.nan, 2.0], state=state, reward={"column": "s"})


def test_the_named_file_is_read_even_when_its_name_looks_like_a_pattern(tmp_path: Path) -> None:
    assert convert(tmp_path, [1.0, 2.0, 3.0]).rewards.max() < 99
