"""Search by comparing every row."""

from __future__ import annotations

import sys

from sb3_webscale.retrieval.vector_index import VectorIndex

__all__ = ["ExactIndex"]


class ExactIndex(VectorIndex):
    """The answers that :class:`~sb3_webscale.retrieval.GraphIndex` approximates: slow, and never wrong.

    Ties of distance are broken by id; ``ef_search`` has no effect.

    :param dim: length of a vector, 1 to 16384
    :param metric: ``"l2"``, the square of the Euclidean distance, or ``"cosine"``, one minus the cosine
    :raises InvalidInputError: when one of these is out of range
    """

    def __init__(self, dim: int, metric: str = "l2") -> None:
        super().__init__(dim, metric, max_neighbors=1, ef_construction=1, ef_search=1, exact_below=sys.maxsize)
