"""Transitions: what every conversion of a log produces and every replay buffer can load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sb3_webscale.errors import DataError

__all__ = ["ConversionReport", "Transitions"]


@dataclass(frozen=True)
class ConversionReport:
    """What became of the rows of a log. ``events`` = ``transitions`` + the sum of ``dropped``.

    :param events: rows read from the log
    :param episodes: sessions found, single-event ones included
    :param transitions: rows that became transitions
    :param terminated: transitions that end a finished session
    :param truncated: transitions that end an unfinished session
    :param single_event_episodes: sessions of one event
    :param dropped: rows that gave no transition, counted by cause
    """

    events: int
    episodes: int
    transitions: int
    terminated: int
    truncated: int
    single_event_episodes: int
    dropped: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """:return: the counts as one flat dictionary, causes prefixed with ``dropped.``"""
        counts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "dropped"}
        return counts | {f"dropped.{cause}": count for cause, count in self.dropped.items()}


@dataclass(frozen=True)
class Transitions:
    """Transitions in order: episode after episode, time running inside each.

    :param observations: float32 or the space's dtype, shape (n, *observation_space.shape)
    :param next_observations: same dtype and shape; the observation after the action
    :param actions: int64 (n,) for Discrete, float32 (n, action_dim) for Box
    :param rewards: float32 (n,), finite
    :param terminated: bool (n,); the episode ended in a terminal state after this transition
    :param truncated: bool (n,); the record of the episode stops after this transition
    :param episode_ids: int64 (n,), non-decreasing
    :param propensities: float32 (n,), probability in (0, 1] with which the logging policy chose the
        action, or None when the log has none
    :param observation_space: space that each observation lies in
    :param action_space: space that each action lies in
    :param report: what became of the rows of the log
    :raises DataError: when the arrays disagree in length
    """

    observations: npt.NDArray[Any]
    next_observations: npt.NDArray[Any]
    actions: npt.NDArray[Any]
    rewards: npt.NDArray[np.float32]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    episode_ids: npt.NDArray[np.int64]
    propensities: npt.NDArray[np.float32] | None
    observation_space: spaces.Box
    action_space: spaces.Space[Any]
    report: ConversionReport

    def __post_init__(self) -> None:
        for name in (
            "next_observations",
            "actions",
            "rewards",
            "terminated",
            "truncated",
            "episode_ids",
            "propensities",
        ):
            array = getattr(self, name)
            if array is not None and len(array) != len(self.observations):
                sizes = f"{name} has {len(array)} rows but observations has {len(self.observations)}"
                msg = f"{sizes}; give one row per transition"
                raise DataError(msg)

    def __len__(self) -> int:
        return len(self.observations)
