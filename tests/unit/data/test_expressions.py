"""The reward language: its arithmetic against Python's, and what it refuses."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_webscale.data.expressions import compile_expression
from sb3_webscale.errors import RuleError

COLUMNS = {"a": [1.0, -2.0, 0.5], "b": [4, 5, 6], "flag": [True, False, True], "x-y": [2.0, 3.0, 4.0]}


def evaluate(text: str) -> list[float | None]:
    return pl.DataFrame(COLUMNS).with_columns(compile_expression(text).expression.alias("r"))["r"].to_list()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [1.0, -2.0, 0.5]),
        ("a + b * 2", [9.0, 8.0, 12.5]),
        ("(a - b) / 2", [-1.5, -3.5, -2.75]),
        ("-a ** 2", [-1.0, -4.0, -0.25]),
        ("b // 4", [1.0, 1.0, 1.0]),
        ("b % 4", [0.0, 1.0, 2.0]),
        ("flag * 10", [10.0, 0.0, 10.0]),
        ("a > 0", [1.0, 0.0, 1.0]),
        ("0 < a < 1", [0.0, 0.0, 1.0]),
        ("(a > 0) and b != 4", [0.0, 0.0, 1.0]),
        ("a < 0 or b == 4", [1.0, 1.0, 0.0]),
        ("not flag", [0.0, 1.0, 0.0]),
        ("where(flag, b, -1)", [4.0, -1.0, 6.0]),
        ('col("x-y") * 2', [4.0, 6.0, 8.0]),
        ("abs(a)", [1.0, 2.0, 0.5]),
        ("min(a, 0)", [0.0, -2.0, 0.0]),
        ("max(a, 0)", [1.0, 0.0, 0.5]),
        ("clip(b, 4.5, 5.5)", [4.5, 5.0, 5.5]),
        ("sign(a)", [1.0, -1.0, 1.0]),
        ("sqrt(b - 4)", [0.0, 1.0, math.sqrt(2.0)]),
        ("log(exp(b))", [4.0, 5.0, 6.0]),
        ("log1p(b)", [math.log(5.0), math.log(6.0), math.log(7.0)]),
        ("a - True", [0.0, -3.0, -0.5]),
    ],
)
def test_values(text: str, expected: list[float]) -> None:
    assert evaluate(text) == pytest.approx(expected)


numbers = st.integers(-5, 5).map(float)
texts = st.recursive(
    st.one_of(st.sampled_from(["a", "b"]), numbers.map(repr).map("({})".format)),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
    max_leaves=8,
)


@given(texts)
def test_agrees_with_python(text: str) -> None:
    expected = [eval(text, {"a": a, "b": float(b)}) for a, b in zip(COLUMNS["a"], COLUMNS["b"], strict=True)]
    assert evaluate(text) == pytest.approx(expected)


def test_columns_are_collected_in_order() -> None:
    assert compile_expression('b + col("x-y") - where(a > b, abs(a), 0)').columns == ("b", "x-y", "a")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("__import__('os')", "'__import__'"),
        ("a.real", "a.real"),
        ("a[0]", "a[0]"),
        ("[a for a in b]", "does not have"),
        ("lambda: a", "does not have"),
        ("'text'", "'text'"),
        ("a if b else a", "does not have"),
        ("a & b", "does not have"),
        ("(a := 1)", "does not have"),
        ("a is b", "compare with"),
        ("mn(a, b)", "did you mean 'min'?"),
        ("abs(a, b)", "abs() 2 arguments; it takes 1"),
        ("where(a, b)", "where() 2 arguments; it takes 3"),
        ("min(a, key=b)", "does not have"),
        ("col(a)", "quoted name"),
        ("a +", "cannot be read"),
        ("", "cannot be read"),
        ("a; b", "cannot be read"),
        ("1j", "does not have"),
        ("1" + "0" * 400, "no 64-bit float can hold"),
        ("+".join(["a"] * 200), "levels deep"),
        ("(" * 500 + "a" + ")" * 500, "expression"),
    ],
)
def test_refusals_name_the_part(text: str, part: str) -> None:
    with pytest.raises(RuleError) as caught:
        compile_expression(text)
    assert part in str(caught.value)
    assert repr(text) in str(caught.value)
