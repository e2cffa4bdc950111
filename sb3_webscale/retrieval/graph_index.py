"""Approximate search through a graph."""

from __future__ import annotations

from sb3_webscale.retrieval.vector_index import VectorIndex, check_range

__all__ = ["GraphIndex"]

_MAX_NEIGHBORS = 48
_EXACT_BELOW = 1000


class GraphIndex(VectorIndex):
    """Approximate nearest-neighbour index that is changed in place.

    A flat proximity graph with mutual links, pruned as DiskANN's (Subramanya et al., NeurIPS 2019), traversed over byte
    codes and ranked by exact distances. Rows of equal vectors share one node, so copies do not hide other rows. With
    fewer than 1000 distinct vectors every row is compared. Safe to use from many threads: searches run side by side,
    changes one at a time. Results do not depend on threads or on the processor.

    :param dim: length of a vector, 1 to 16384
    :param metric: ``"l2"``, the square of the Euclidean distance, or ``"cosine"``, one minus the cosine
    :param max_neighbors: links that a new node chooses, 1 to 48; later ones may add some up to 64
    :param ef_construction: nodes that are considered for them
    :param ef_search: candidates kept by a search; more find more and take longer
    :raises InvalidInputError: when one of these is out of range
    """

    def __init__(
        self,
        dim: int,
        metric: str = "l2",
        max_neighbors: int = 32,
        ef_construction: int = 200,
        ef_search: int = 64,
    ) -> None:
        check_range("max_neighbors", max_neighbors, 1, _MAX_NEIGHBORS)
        check_range("ef_construction", ef_construction, 1, None)
        super().__init__(dim, metric, max_neighbors, ef_construction, ef_search, _EXACT_BELOW)
        self.max_neighbors = max_neighbors
        self.ef_construction = ef_construction
