"""Schedules are read as rl-baselines3-zoo means them."""

from __future__ import annotations

import pytest

from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.schedules import parse_schedule


@pytest.mark.parametrize(("text", "start"), [("lin_1e-4", 1e-4), ("lin_0.1", 0.1)])
def test_linear_schedules_fall_from_their_value_to_zero(text, start):
    schedule = parse_schedule(text)
    assert schedule(1.0) == start
    assert schedule(0.5) == pytest.approx(start / 2)
    assert schedule(0.0) == pytest.approx(0.0)


@pytest.mark.parametrize(("value", "expected"), [(3e-4, 3e-4), ("3e-4", 3e-4), (1, 1.0), (None, None)])
def test_constants_stay_constant(value, expected):
    assert parse_schedule(value) == expected


def test_a_negative_value_function_clip_means_none():
    assert parse_schedule(-1, "PPO.clip_range_vf") is None


@pytest.mark.parametrize("value", ["log_1e-4", "lin_", "lin_abc", "lin_-1", -1e-4, float("nan"), "inf", True, [1e-4]])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError, match=r"learning_rate = .* must be a finite number >= 0 or 'lin_<number>'"):
        parse_schedule(value)
