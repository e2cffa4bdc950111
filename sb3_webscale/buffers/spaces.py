"""Which spaces a replay buffer can hold, and how an observation is laid out in native memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_action_dim, get_obs_shape

from sb3_webscale.errors import InvalidInputError

__all__ = ["ActionLayout", "ObservationLayout", "action_layout", "observation_layouts"]

# A leading axis is taken for a stack of frames when it is this short and each part this large: below, one reference
# for each frame would cost more than sharing frames saves.
_MAX_FRAMES = 16
_MIN_FRAME_BYTES = 64


@dataclass(frozen=True)
class ObservationLayout:
    """One observation array of a space.

    :param key: key in a Dict space, or None for a flat one
    :param shape: shape of one observation, as SB3 stores it
    :param dtype: element type, kept in memory and in the sample
    """

    key: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    def named(self, name: str) -> str:
        """``name``, with the key for a part of a Dict space."""
        return name if self.key is None else f"{name}[{self.key!r}]"

    @property
    def row_bytes(self) -> int:
        """Bytes of one observation."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def frames(self) -> int:
        """Equal parts of an observation that may be shared with its neighbours in time, along the first axis."""
        if len(self.shape) < 2 or not 2 <= self.shape[0] <= _MAX_FRAMES:
            return 1
        return self.shape[0] if self.row_bytes // self.shape[0] >= _MIN_FRAME_BYTES else 1


@dataclass(frozen=True)
class ActionLayout:
    """Actions flattened to ``dim`` elements of ``dtype``."""

    dim: int
    dtype: np.dtype[np.generic]


def observation_layouts(space: spaces.Space[object]) -> list[ObservationLayout]:
    """
    :param space: observation space, Dict spaces included
    :return: one layout for each array of an observation, in the order of the Dict space's keys
    :raises InvalidInputError: when the space, or one inside the Dict, cannot be stored
    """
    if isinstance(space, spaces.Dict):
        if not space.spaces:
            msg = "observation_space is a Dict without keys, so there is nothing to store: give it at least one"
            raise InvalidInputError(msg)
        return [_array_layout(key, part, f"observation_space[{key!r}]") for key, part in space.spaces.items()]
    return [_array_layout(None, space, "observation_space")]


def _array_layout(key: str | None, space: spaces.Space[object], name: str) -> ObservationLayout:
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
    return ObservationLayout(key, shape, np.dtype(space.dtype))


def action_layout(space: spaces.Space[object]) -> ActionLayout:
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


def _refuse_nested(space: spaces.Space[object], name: str) -> None:
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim != 1:
        flat = space.nvec.ravel().tolist()
        msg = f"{name} is {space}, but only MultiDiscrete spaces of one axis can be stored: use MultiDiscrete({flat})"
        raise InvalidInputError(msg)
