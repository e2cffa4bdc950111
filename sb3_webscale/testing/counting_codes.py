"""Observations that say which environment, episode and step they come from, in every kind of space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

__all__ = [
    "MAX_ENVS",
    "MAX_EPISODES",
    "MAX_STEPS",
    "OBSERVATION_KINDS",
    "ObservationCode",
    "observation_code",
]

MAX_ENVS = 16
MAX_EPISODES = 100
MAX_STEPS = 64

_N_FRAMES = 4
_FRAME = (8, 8)
_BITS = 8

Codes = npt.NDArray[np.int64]
Observation = Any


@dataclass(frozen=True)
class ObservationCode:
    """How (env, episode, step) is written into an observation of one space.

    :param space: observation space
    :param encode: int64 (n, 3) to observations (n, *shape), or to a dict of them; exact
    :param decode: the inverse of ``encode``
    """

    space: spaces.Space[Any]
    encode: Callable[[Codes], Observation]
    decode: Callable[[Observation], Codes]


def _plain_box(dtype: Any, shape: tuple[int, ...]) -> ObservationCode:
    floating = np.issubdtype(dtype, np.floating)
    low, high = (-np.inf, np.inf) if floating else (0, min(np.iinfo(dtype).max, 127))
    space = spaces.Box(low, high, shape, dtype)

    def encode(codes: Codes) -> Observation:
        return np.resize(codes.T, (int(np.prod(shape)), len(codes))).T.reshape(-1, *shape).astype(dtype)

    def decode(observations: Observation) -> Codes:
        return np.asarray(observations).reshape(len(observations), -1)[:, :3].astype(np.int64)

    return ObservationCode(space, encode, decode)


def _bits(space: spaces.Space[Any], dtype: type[np.generic]) -> ObservationCode:
    weights = 2 ** np.arange(_BITS)

    def encode(codes: Codes) -> Observation:
        return ((codes[:, :, None] // weights) % 2).reshape(-1, 3 * _BITS).astype(dtype)

    def decode(observations: Observation) -> Codes:
        digits: Codes = np.asarray(observations).reshape(-1, 3, _BITS).astype(np.int64) @ weights
        return digits

    return ObservationCode(space, encode, decode)


def _frame_stack() -> ObservationCode:
    """Four frames, each the code of one step: neighbours in time share three of them, as in Atari."""
    space = spaces.Box(0, 255, (_N_FRAMES, *_FRAME), np.uint8)

    def encode(codes: Codes) -> Observation:
        age = np.arange(_N_FRAMES - 1, -1, -1)
        frames = np.repeat(codes[:, None, :], _N_FRAMES, axis=1)
        frames[:, :, 2] = np.maximum(frames[:, :, 2] - age, 0)
        pixels = np.resize(frames.reshape(-1, 3).T, (int(np.prod(_FRAME)), frames.shape[0] * _N_FRAMES)).T
        return pixels.reshape(-1, _N_FRAMES, *_FRAME).astype(np.uint8)

    def decode(observations: Observation) -> Codes:
        return np.asarray(observations)[:, -1].reshape(len(observations), -1)[:, :3].astype(np.int64)

    return ObservationCode(space, encode, decode)


def _discrete() -> ObservationCode:
    space = spaces.Discrete(MAX_ENVS * MAX_EPISODES * MAX_STEPS)
    scale = np.array([MAX_EPISODES * MAX_STEPS, MAX_STEPS, 1])

    def encode(codes: Codes) -> Observation:
        return codes @ scale

    def decode(observations: Observation) -> Codes:
        number = np.asarray(observations).reshape(-1).astype(np.int64)
        return np.stack([number // scale[0], number // MAX_STEPS % MAX_EPISODES, number % MAX_STEPS], axis=1)

    return ObservationCode(space, encode, decode)


def _multi_discrete() -> ObservationCode:
    def encode(codes: Codes) -> Observation:
        return codes.copy()

    def decode(observations: Observation) -> Codes:
        return np.asarray(observations).astype(np.int64)

    return ObservationCode(spaces.MultiDiscrete([MAX_ENVS, MAX_EPISODES, MAX_STEPS]), encode, decode)


def _dict_of(parts: dict[str, ObservationCode]) -> ObservationCode:
    """Every part carries the whole code, so that parts of different transitions cannot be mixed unnoticed."""

    def encode(codes: Codes) -> Observation:
        return {key: part.encode(codes) for key, part in parts.items()}

    def decode(observations: Observation) -> Codes:
        first = next(iter(parts))
        return parts[first].decode(observations[first])

    return ObservationCode(spaces.Dict({key: part.space for key, part in parts.items()}), encode, decode)


def _goals() -> ObservationCode:
    """The goal that the environment sets is the start of the episode, which no step achieves."""
    part = _plain_box(np.float32, (3,))

    def encode(codes: Codes) -> Observation:
        start = codes.copy()
        start[:, 2] = 0
        return {
            "achieved_goal": part.encode(codes),
            "desired_goal": part.encode(start),
            "observation": part.encode(codes),
        }

    def decode(observations: Observation) -> Codes:
        return part.decode(observations["observation"])

    keys = ("achieved_goal", "desired_goal", "observation")
    return ObservationCode(spaces.Dict(dict.fromkeys(keys, part.space)), encode, decode)


_BUILDERS: dict[str, Callable[[], ObservationCode]] = {
    "float64": lambda: _plain_box(np.float64, (3,)),
    "float32": lambda: _plain_box(np.float32, (5,)),
    "float16": lambda: _plain_box(np.float16, (3,)),
    "uint16": lambda: _plain_box(np.uint16, (3,)),
    "uint8": lambda: _plain_box(np.uint8, (3,)),
    "int8": lambda: _plain_box(np.int8, (4,)),
    "int64": lambda: _plain_box(np.int64, (3,)),
    "bool": lambda: _bits(spaces.Box(0, 1, (3 * _BITS,), np.bool_), np.bool_),
    "matrix": lambda: _plain_box(np.float32, (2, 3)),
    "image": _frame_stack,
    "discrete": _discrete,
    "multi_discrete": _multi_discrete,
    "multi_binary": lambda: _bits(spaces.MultiBinary(3 * _BITS), np.int8),
    "dict": lambda: _dict_of(
        {
            "position": _plain_box(np.float32, (3,)),
            "camera": _frame_stack(),
            "room": _discrete(),
            "level": _multi_discrete(),
        }
    ),
    "goal": _goals,
}

OBSERVATION_KINDS = tuple(_BUILDERS)


def observation_code(kind: str) -> ObservationCode:
    """
    :param kind: one of ``OBSERVATION_KINDS``
    :return: the code of that kind
    :raises ValueError: when the kind is unknown
    """
    if kind not in _BUILDERS:
        msg = f"observation kind is {kind!r}, but must be one of {', '.join(OBSERVATION_KINDS)}"
        raise ValueError(msg)
    return _BUILDERS[kind]()
