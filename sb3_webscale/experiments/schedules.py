"""Hyperparameter values that change over the training, as rl-baselines3-zoo writes them."""

from __future__ import annotations

import math
from typing import Any

from stable_baselines3.common.utils import LinearSchedule

from sb3_webscale.errors import ConfigError

__all__ = ["SCHEDULED_HYPERPARAMETERS", "parse_schedule"]

SCHEDULED_HYPERPARAMETERS = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")
_LINEAR_PREFIX = "lin_"


def parse_schedule(value: Any, where: str = "learning_rate") -> float | LinearSchedule | None:
    """Read a constant or a linear schedule.

    :param value: a number, ``"lin_1e-4"`` (from 1e-4 to 0 over the training), a number in a string, or None
    :param where: key path of the value, for the error message
    :return: the constant, or Stable-Baselines3's own schedule object, so that a saved model needs nothing of ours
    :raises ConfigError: when the value is neither, or is negative or not finite
    """
    if value is None:
        return None
    is_linear = isinstance(value, str) and value.startswith(_LINEAR_PREFIX)
    try:
        number = float(value.removeprefix(_LINEAR_PREFIX) if isinstance(value, str) else value)
    except (TypeError, ValueError) as error:
        raise ConfigError(_rule(where, value)) from error
    # rl-baselines3-zoo means "no clipping" by a negative clip_range_vf.
    if where.endswith("clip_range_vf") and number < 0:
        return None
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise ConfigError(_rule(where, value))
    return LinearSchedule(number, 0.0, 1.0) if is_linear else number


def _rule(where: str, value: Any) -> str:
    return f"{where} = {value!r} must be a finite number >= 0 or 'lin_<number>'; write for example 1.0e-4 or lin_1e-4"
