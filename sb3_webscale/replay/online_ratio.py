"""Schedules for the share of online experience in a batch that mixes history and online experience."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sb3_webscale.errors import ConfigError

__all__ = ["ConstantOnlineRatio", "LinearOnlineRatio", "OnlineRatio", "parse_online_ratio"]


@runtime_checkable
class OnlineRatio(Protocol):
    """A schedule: maps the fraction of training done, in [0, 1], to the share of online rows, in [0, 1]."""

    def __call__(self, progress: float) -> float: ...


@dataclass(frozen=True)
class LinearOnlineRatio:
    """min(1, start + (end - start) * progress); by default from 0.3 to 1.

    :param start: share at the beginning, in [0, 1]
    :param end: share at the end, in [0, 1]
    :raises ConfigError: when a share lies outside [0, 1]
    """

    start: float = 0.3
    end: float = 1.0

    def __post_init__(self) -> None:
        _check_share("online_ratio.start", self.start)
        _check_share("online_ratio.end", self.end)

    def __call__(self, progress: float) -> float:
        return self.start + (self.end - self.start) * min(max(progress, 0.0), 1.0)


@dataclass(frozen=True)
class ConstantOnlineRatio:
    """The same share throughout; 0.5 is the choice of RLPD (Ball et al., "Efficient Online Reinforcement Learning with
    Offline Data", ICML 2023).

    :param value: share, in [0, 1]
    :raises ConfigError: when the share lies outside [0, 1]
    """

    value: float = 0.5

    def __post_init__(self) -> None:
        _check_share("online_ratio", self.value)

    def __call__(self, progress: float) -> float:
        return self.value


def parse_online_ratio(spec: object) -> OnlineRatio:
    """
    :param spec: ``"linear"``, a number, ``{"start": ..., "end": ...}``, or a schedule object
    :return: the schedule
    :raises ConfigError: when ``spec`` is none of these
    """
    if spec == "linear":
        return LinearOnlineRatio()
    if isinstance(spec, int | float) and not isinstance(spec, bool):
        return ConstantOnlineRatio(float(spec))
    if isinstance(spec, dict) and spec.keys() <= {"start", "end"}:
        return LinearOnlineRatio(**{name: float(value) for name, value in spec.items()})
    if isinstance(spec, OnlineRatio):
        return spec
    msg = f"online_ratio is {spec!r}: write 'linear', a number in [0, 1], or {{start: 0.3, end: 1.0}}"
    raise ConfigError(msg)


def _check_share(name: str, value: float) -> None:
    if not (math.isfinite(value) and 0.0 <= value <= 1.0):
        msg = f"{name} is {value}, but a share of a batch lies in [0, 1]"
        raise ConfigError(msg)
