"""Random projections: far fewer dimensions, in which distances stay nearly what they were.

Johnson and Lindenstrauss's lemma, with matrices of Gaussians, of signs (Achlioptas, "Database-friendly random
projections", 2003), or of a few signs for each element (Kane and Nelson, "Sparser Johnson-Lindenstrauss transforms",
2014), which take a fraction of the time on images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from scipy import sparse

from sb3_webscale.errors import InvalidInputError
from sb3_webscale.retrieval.encoder import Encoder, Observations, flat_blocks, flat_width

__all__ = ["RandomProjection"]

_MAX_DIM = 256
_KINDS = ("sparse", "achlioptas", "gaussian")
_SIGNS_PER_ELEMENT = 4


@dataclass(frozen=True)
class RandomProjection:
    """Projects the elements of an observation by a random matrix that the seed determines.

    :param dim: length of the vectors, 1 to 256
    :param kind: ``"sparse"``, four signs for each element; ``"achlioptas"``, a third of the matrix is signs, the rest
        zeros; ``"gaussian"``, normal numbers
    :raises InvalidInputError: when one of these is out of range
    """

    dim: int = _MAX_DIM
    kind: str = "sparse"

    def __post_init__(self) -> None:
        if not 1 <= self.dim <= _MAX_DIM:
            msg = f"dim of the random projection is {self.dim}, but must be 1 to {_MAX_DIM}"
            raise InvalidInputError(msg)
        if self.kind not in _KINDS:
            msg = f"kind of the random projection is {self.kind!r}, but must be one of {', '.join(map(repr, _KINDS))}"
            raise InvalidInputError(msg)

    def build(self, observation_space: spaces.Space[Any], seed: int) -> Encoder:
        """
        :param observation_space: any that a buffer holds
        :param seed: of the matrix
        :return: the encoder
        """
        width = flat_width(observation_space)
        random = np.random.Generator(np.random.Philox(seed))
        return _ProjectionEncoder(_matrix(self.kind, width, self.dim, random))


def _matrix(kind: str, width: int, dim: int, random: np.random.Generator) -> Any:
    """(dim, width) such that squared lengths keep their expectation."""
    if kind == "gaussian":
        return random.standard_normal((dim, width), dtype=np.float32) / np.float32(np.sqrt(dim))
    if kind == "achlioptas":
        faces = random.integers(0, 6, size=(dim, width), dtype=np.int8)
        return ((faces == 0).astype(np.float32) - (faces == 1)) * np.float32(np.sqrt(3.0 / dim))
    count = min(_SIGNS_PER_ELEMENT, dim)
    # One place in each of `count` equal parts of the vector, so that no element meets itself.
    bounds = np.linspace(0, dim, count + 1).astype(np.int64)
    places = random.integers(bounds[:-1], bounds[1:], size=(width, count))
    signs = random.integers(0, 2, size=(width, count)).astype(np.float32) * 2 - 1
    columns = np.repeat(np.arange(width), count)
    values = signs.ravel() / np.float32(np.sqrt(count))
    return sparse.csr_matrix((values, (places.ravel(), columns)), shape=(dim, width))


class _ProjectionEncoder(Encoder):
    def __init__(self, matrix: Any) -> None:
        super().__init__(matrix.shape[0])
        self._matrix = matrix

    def encode(self, observations: Observations) -> npt.NDArray[np.float32]:
        blocks = [
            (self._matrix @ np.ascontiguousarray(flat.T)).T[: part.stop - part.start]
            for part, flat in flat_blocks(observations)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, self.dim), dtype=np.float32)
