"""Which spaces a replay buffer can hold, and how an observation is laid out in native memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_action_dim, get_obs_shape

from sb3_webscale.buffers.frame_stacks import (
    FrameStack,
    FrameStacks,
    Stacking,
    detected_stacking,
    leading_stacking,
    requested_stack,
    requested_stacking,
)
from sb3_webscale.errors import InvalidInputError

__all__ = ["ActionLayout", "ObservationLayout", "action_layout", "observation_layouts"]


@dataclass(frozen=True)
class ObservationLayout:
    """One observation array of a space.

    :param key: key in a Dict space, or None for a flat one
    :param shape: shape of one observation, as SB3 stores it
    :param dtype: element type, kept in memory and in the sample
    :param stacking: equal parts of an observation that may be shared with its neighbours in time
    """

    key: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    stacking: Stacking

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "stacking" not in state:
            # The first buffers of format 1 knew of stacks along the first axis only.
            self.__dict__["stacking"] = leading_stacking(self.shape, self.dtype)

    def named(self, name: str) -> str:
        """``name``, with the key for a part of a Dict space."""
        return name if self.key is None else f"{name}[{self.key!r}]"

    @property
    def row_bytes(self) -> int:
        """Bytes of one observation."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame, or of an observation that is no stack."""
        return self.row_bytes // self.stacking.frames

    @property
    def parts(self) -> int:
        """Parts in which the frames take turns; 1 when each is contiguous."""
        return math.prod(self.shape[: self.stacking.axis])


@dataclass(frozen=True)
class ActionLayout:
    """Actions flattened to ``dim`` elements of ``dtype``."""

    dim: int
    dtype: np.dtype[np.generic]


def observation_layouts(space: spaces.Space[Any], frame_stack: FrameStacks = None) -> list[ObservationLayout]:
    """
    :param space: observation space, Dict spaces included
    :param frame_stack: number of stacked frames, or (number, axis), of every array or by key; None detects images
    :return: one layout for each array of an observation, in the order of the Dict space's keys
    :raises InvalidInputError: when the space, or one inside the Dict, cannot be stored or does not hold such stacks
    """
    if isinstance(space, spaces.Dict):
        if not space.spaces:
            msg = "observation_space is a Dict without keys, so there is nothing to store: give it at least one"
            raise InvalidInputError(msg)
        return [
            _array_layout(key, part, requested_stack(frame_stack, space, key)) for key, part in space.spaces.items()
        ]
    return [_array_layout(None, space, requested_stack(frame_stack, space, None))]


def _array_layout(key: str | None, space: spaces.Space[Any], stack: FrameStack | None) -> ObservationLayout:
    name = "observation_space" if key is None else f"observation_space[{key!r}]"
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        msg = (
            f"{name} is {space}, which a replay buffer cannot store: use Box, Discrete, MultiDiscrete, MultiBinary, "
            "or a Dict of these (one level deep)"
        )
        raise InvalidInputError(msg)
    _refuse_nested(space, name)
    shape = get_obs_shape(space)
    assert isinstance(shape, tuple)
    if math.prod(shape) == 0:
        msg = f"{name} is {space}, which has no elements: give every axis a length of at least 1"
        raise InvalidInputError(msg)
    dtype = np.dtype(space.dtype)
    if stack is None:
        return ObservationLayout(key, shape, dtype, detected_stacking(space, shape, dtype))
    return ObservationLayout(key, shape, dtype, requested_stacking(stack, space, shape, dtype, key))


def action_layout(space: spaces.Space[Any]) -> ActionLayout:
    """
    :param space: action space
    :return: how many elements of which type an action is stored as; float64 becomes float32, as in SB3
    :raises InvalidInputError: when the space cannot be stored
    """
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        msg = f"action_space is {space}, which cannot be stored: use Box, Discrete, MultiDiscrete or MultiBinary"
        raise InvalidInputError(msg)
    _refuse_nested(space, "action_space")
    if isinstance(space, spaces.MultiBinary) and len(space.shape) != 1:
        flat_size = math.prod(space.shape)
        msg = (
            f"action_space is {space}, but SB3 takes MultiBinary actions of one axis only: use MultiBinary({flat_size})"
        )
        raise InvalidInputError(msg)
    dtype = np.dtype(space.dtype)
    return ActionLayout(get_action_dim(space), np.dtype(np.float32) if dtype == np.float64 else dtype)


def _refuse_nested(space: spaces.Space[Any], name: str) -> None:
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim != 1:
        flat = space.nvec.ravel().tolist()
        msg = f"{name} is {space}, but only MultiDiscrete spaces of one axis can be stored: use MultiDiscrete({flat})"
        raise InvalidInputError(msg)
