"""Logged events: every decision of a log with its state, for off-policy evaluation and simulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sb3_webscale.errors import DataError

__all__ = ["LoggedEvents"]


@dataclass(frozen=True)
class LoggedEvents:
    """Events in order: episode after episode, time running inside each.

    Unlike :class:`~sb3_webscale.data.transitions.Transitions`, an event needs no next observation, so the last event
    of an unfinished episode is here too.

    :param observations: float32 (n, n_features)
    :param actions: int64 (n,) for Discrete, float32 (n, action_dim) for Box
    :param rewards: float32 (n,), finite
    :param propensities: float64 (n,) in (0, 1], or None when the log has none
    :param episode_ids: int64 (n,), non-decreasing
    :param observation_space: space that each observation lies in
    :param action_space: space that each action lies in
    :param feature_names: name of each column of ``observations``
    :raises DataError: when the arrays disagree in length
    """

    observations: npt.NDArray[np.float32]
    actions: npt.NDArray[Any]
    rewards: npt.NDArray[np.float32]
    propensities: npt.NDArray[np.float64] | None
    episode_ids: npt.NDArray[np.int64]
    observation_space: spaces.Box
    action_space: spaces.Space[Any]
    feature_names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("actions", "rewards", "propensities", "episode_ids"):
            array = getattr(self, name)
            if array is not None and len(array) != len(self.observations):
                sizes = f"{name} has {len(array)} rows but observations has {len(self.observations)}"
                msg = f"{sizes}; give one row per event"
                raise DataError(msg)

    def __len__(self) -> int:
        return len(self.observations)
