"""What turns observations into the vectors that an index compares."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_obs_shape

__all__ = ["Encoder", "EncoderFactory", "Observations", "flat_blocks", "flat_rows", "flat_width", "selected_rows"]

# So many rows of images at once stay in the processor's cache.
_ROWS_AT_ONCE = 64

Observations: TypeAlias = npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]
"""Rows of observations in the types of the space, (n, *shape), or one such array for each key of a Dict space."""


class Encoder(ABC):
    """Maps observations to vectors; the same for rows that are stored and for queries.

    :param dim: length of a vector
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    @abstractmethod
    def encode(self, observations: Observations) -> npt.NDArray[np.float32]:
        """
        :param observations: n rows, as they are stored: not normalised
        :return: float32 (n, dim); rows that are not finite are not indexed
        """


@runtime_checkable
class EncoderFactory(Protocol):
    """Makes an encoder for a space."""

    def build(self, observation_space: spaces.Space[Any], seed: int) -> Encoder:
        """
        :param observation_space: of the observations to encode; a Dict space holds only the keys that were chosen
        :param seed: 64-bit seed, the only source of randomness to use
        :return: the encoder
        :raises InvalidInputError: when the space does not suit
        """


def flat_rows(observations: Observations) -> npt.NDArray[np.float32]:
    """
    :param observations: n rows
    :return: float32 (n, width), the elements of each row side by side, key after key
    """
    if isinstance(observations, Mapping):
        return np.concatenate([flat_rows(part) for part in observations.values()], axis=1)
    return observations.reshape(len(observations), -1).astype(np.float32, copy=False)


def selected_rows(observations: Observations, rows: Any) -> Observations:
    """
    :param observations: n rows
    :param rows: slice, or integers
    :return: these rows
    """
    if isinstance(observations, Mapping):
        return {key: part[rows] for key, part in observations.items()}
    selected: npt.NDArray[Any] = observations[rows]
    return selected


def flat_blocks(observations: Observations) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
    """
    :param observations: n rows
    :return: slices of rows, in order, and float32 (64, width) with these rows, padded with zeros: the rounding of a
        matrix product may depend on its shape, so that equal rows give equal products only in blocks of one size
    """
    count = len(next(iter(observations.values()))) if isinstance(observations, Mapping) else len(observations)
    for start in range(0, count, _ROWS_AT_ONCE):
        part = slice(start, min(start + _ROWS_AT_ONCE, count))
        flat = flat_rows(selected_rows(observations, part))
        missing = _ROWS_AT_ONCE - len(flat)
        yield part, np.pad(flat, ((0, missing), (0, 0))) if missing else flat


def flat_width(space: spaces.Space[Any]) -> int:
    """
    :param space: observation space that a buffer can hold
    :return: elements of a row of :func:`flat_rows`
    """
    if isinstance(space, spaces.Dict):
        return sum(flat_width(part) for part in space.spaces.values())
    shape = get_obs_shape(space)
    assert isinstance(shape, tuple)
    return math.prod(shape)
