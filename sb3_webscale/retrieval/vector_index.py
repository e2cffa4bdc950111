"""What the graph index and the exact one share: rows with ids and priorities, and the checks of what comes in."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sb3_webscale import _native
from sb3_webscale.errors import InvalidInputError

__all__ = ["SearchResult", "VectorIndex", "check_range"]

_METRICS = ("l2", "cosine")
_MAX_DIM = 16384


class SearchResult(NamedTuple):
    """The nearest rows of n queries, nearest first.

    :param ids: int64 (n, k), -1 where fewer than k rows were found
    :param distances: float32 (n, k), exact; infinite there
    :param priorities: float64 (n, k), NaN there
    """

    ids: npt.NDArray[np.int64]
    distances: npt.NDArray[np.float32]
    priorities: npt.NDArray[np.float64]


class VectorIndex:
    """Rows of vectors that are searched for the nearest ones.

    :param dim: length of a vector, 1 to 16384
    :param metric: ``"l2"``, the square of the Euclidean distance, or ``"cosine"``, one minus the cosine
    :param max_neighbors: links that a new node of the graph chooses
    :param ef_construction: nodes that are considered for them
    :param ef_search: candidates kept by a search
    :param exact_below: number of distinct vectors from which on they are linked to a graph
    :raises InvalidInputError: when one of these is out of range
    """

    def __init__(
        self, dim: int, metric: str, max_neighbors: int, ef_construction: int, ef_search: int, exact_below: int
    ) -> None:
        check_range("dim", dim, 1, _MAX_DIM)
        if metric not in _METRICS:
            msg = f"metric is {metric!r}, but must be one of {', '.join(map(repr, _METRICS))}"
            raise InvalidInputError(msg)
        check_range("ef_search", ef_search, 1, None)
        self.dim = dim
        self.metric = metric
        self.ef_search = ef_search
        self.nodes_visited = 0.0
        self._native = _native.GraphIndex(dim, metric, max_neighbors, ef_construction, exact_below)

    def insert(self, vectors: npt.ArrayLike, ids: npt.ArrayLike, priorities: npt.ArrayLike | None = None) -> None:
        """Add rows; one whose id is present is replaced.

        :param vectors: (n, dim), finite, and not zero under cosine
        :param ids: int (n,), different from each other and not negative
        :param priorities: (n,), finite; None means 1
        :raises InvalidInputError: when a shape or value is wrong; nothing is added then
        """
        vectors = self._checked_vectors(vectors, "vectors")
        ids = _checked_ids(ids, len(vectors))
        if len(np.unique(ids)) != len(ids):
            msg = "ids holds one id twice, but each row needs its own"
            raise InvalidInputError(msg)
        if priorities is None:
            priorities = np.ones(len(vectors))
        self._native.insert(vectors, ids, _checked_priorities(priorities, len(vectors)))

    def delete(self, ids: npt.ArrayLike) -> int:
        """
        :param ids: int (n,)
        :return: how many of these rows were present; they are gone now
        """
        return self._native.remove(_checked_ids(ids, None))

    def set_priorities(self, ids: npt.ArrayLike, priorities: npt.ArrayLike) -> int:
        """
        :param ids: int (n,)
        :param priorities: (n,), finite
        :return: how many of these rows were present
        :raises InvalidInputError: when a priority is not finite, or the lengths differ
        """
        ids = _checked_ids(ids, None)
        return self._native.set_priorities(ids, _checked_priorities(priorities, len(ids)))

    def search(
        self,
        queries: npt.ArrayLike,
        k: int,
        *,
        ef_search: int | None = None,
        priority_threshold: float | None = None,
        exclude: npt.ArrayLike | None = None,
    ) -> SearchResult:
        """The rows nearest to each query. ``nodes_visited`` then tells the mean number of distances computed.

        :param queries: (n, dim), or (dim,) for one
        :param k: how many rows for each; more than are stored leave the rest of the arrays padded
        :param ef_search: candidates kept, in place of the index's own; at least k are
        :param priority_threshold: only rows of at least this priority. When few rows have it, all of these are compared
        :param exclude: ids that are not wanted
        :return: ids, distances and priorities, (n, k) each
        :raises InvalidInputError: when a shape or value is wrong
        """
        array = np.asarray(queries)
        vectors = self._checked_vectors(array[None] if array.ndim == 1 else array, "queries")
        check_range("k", k, 1, None)
        ef = self.ef_search if ef_search is None else ef_search
        check_range("ef_search", ef, 1, None)
        threshold = -math.inf if priority_threshold is None else float(priority_threshold)
        if math.isnan(threshold):
            msg = "priority_threshold is NaN, but must be a number, or None for all rows"
            raise InvalidInputError(msg)
        excluded = _checked_ids([] if exclude is None else exclude, None)
        ids, distances, priorities, visited = self._native.search(vectors, k, ef, threshold, excluded)
        self.nodes_visited = float(visited.mean()) if len(visited) else 0.0
        return SearchResult(ids, distances, priorities)

    def check(self) -> dict[str, Any]:
        """
        :return: rows, distinct vectors, bytes, ``unreachable`` nodes, which no search finds, and ``defect``, the first
            broken rule of the structure or an empty string. O(n)
        """
        return {
            "rows": len(self._native),
            "nodes": self._native.nodes,
            "nbytes": self._native.nbytes,
            "unreachable": self._native.unreachable(),
            "defect": self._native.defect(),
        }

    def maintain(self) -> int:
        """Link nodes that no search can reach anew. O(n).

        :return: how many there were
        """
        return self._native.reconnect()

    @property
    def nbytes(self) -> int:
        """Bytes of native memory that the index holds now, untouched parts included."""
        return self._native.nbytes

    def __len__(self) -> int:
        """Rows stored."""
        return len(self._native)

    def __contains__(self, row_id: int) -> bool:
        return self._native.contains(int(row_id))

    def _checked_vectors(self, vectors: npt.ArrayLike, name: str) -> npt.NDArray[np.float32]:
        array = np.ascontiguousarray(vectors, dtype=np.float32)
        if array.ndim != 2 or array.shape[1] != self.dim:
            msg = f"{name} has shape {array.shape}, but (n, {self.dim}) is needed, the dim of this index"
            raise InvalidInputError(msg)
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            msg = f"{name}[{int(np.argmin(finite))}] holds NaN or infinity, but vectors must be finite"
            raise InvalidInputError(msg)
        if self.metric == "cosine":
            nonzero = array.any(axis=1)
            if not nonzero.all():
                msg = f"{name}[{int(np.argmin(nonzero))}] is zero, which has no direction: leave it out, or use l2"
                raise InvalidInputError(msg)
        return array


def check_range(name: str, value: int, least: int, most: int | None) -> None:
    if value < least or (most is not None and value > most):
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        msg = f"{name} is {value}, but must be {wanted}"
        raise InvalidInputError(msg)


def _checked_ids(ids: npt.ArrayLike, count: int | None) -> npt.NDArray[np.int64]:
    array = np.asarray(ids)
    if array.size and array.dtype.kind not in "iu":
        msg = f"ids has dtype {array.dtype}, but ids are integers"
        raise InvalidInputError(msg)
    array = np.ascontiguousarray(array, dtype=np.int64).reshape(-1)
    if count is not None and len(array) != count:
        msg = f"ids has {len(array)} elements, but there are {count} vectors: give one id for each"
        raise InvalidInputError(msg)
    if (array < 0).any():
        msg = f"ids holds {int(array.min())}, but ids are not negative"
        raise InvalidInputError(msg)
    return array


def _checked_priorities(priorities: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
    array = np.ascontiguousarray(priorities, dtype=np.float64).reshape(-1)
    if len(array) != count:
        msg = f"priorities has {len(array)} elements, but there are {count} rows: give one for each"
        raise InvalidInputError(msg)
    if not np.isfinite(array).all():
        msg = f"priorities[{int(np.argmin(np.isfinite(array)))}] is not finite"
        raise InvalidInputError(msg)
    return array
