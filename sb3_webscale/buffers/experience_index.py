"""The index of a ring's observations: follows what is added, overwritten and prioritized, in blocks.

Ids number the transitions of a ring in the order in which they were added, so those that are stored form a range. What
the index holds is a range too, which may lag behind: the transitions of the running block are not yet in it, and those
that were overwritten meanwhile still are. A search catches up first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sb3_webscale import _native
from sb3_webscale.buffers.spaces import ObservationLayout
from sb3_webscale.retrieval.encoder import Encoder, Observations
from sb3_webscale.retrieval.graph_index import GraphIndex
from sb3_webscale.retrieval.index_config import IndexConfig
from sb3_webscale.retrieval.vector_index import SearchResult

__all__ = ["ExperienceIndex", "live_ids"]

# Priorities that changed are handed on at the next block or search, or when there are so many.
_MOST_CHANGED = 100_000


def live_ids(ring: _native.Replay, n_envs: int) -> range:
    """
    :param ring: a buffer's ring
    :param n_envs: environments that it serves
    :return: ids of the transitions stored now
    """
    filled = ring.filled_slots
    end = ring.steps * n_envs
    return range(end - filled * n_envs, end)


class ExperienceIndex:
    """Index over one ring, whose owner tells it of every change. Safe to use from many threads.

    :param config: settings
    :param encoder: what makes vectors of observations
    :param columns: number and layout of each observation array that is encoded
    :param n_envs: environments of the ring
    :param capacity: transitions that the ring holds
    """

    def __init__(
        self,
        config: IndexConfig,
        encoder: Encoder,
        columns: Sequence[tuple[int, ObservationLayout]],
        n_envs: int,
        capacity: int,
    ) -> None:
        self.config = config
        self.encoder = encoder
        self._columns = list(columns)
        self._n_envs = n_envs
        self._block = min(config.merge_every, capacity)
        self._forget(0)

    def _forget(self, first: int) -> None:
        self._graph: GraphIndex = self.config.new_graph(self.encoder.dim)
        self._first = self._end = first
        self._next_block = self._after(first)
        self._changed: list[npt.NDArray[np.int64]] = []
        self._n_changed = 0
        self._left_out = 0
        self._lock = threading.RLock()

    def _after(self, id: int) -> int:
        """Where the block that ``id`` lies in ends."""
        return (id // self._block + 1) * self._block

    def clear(self, ring: _native.Replay) -> None:
        """
        :param ring: the ring, which was emptied; its ids go on
        """
        with self._lock:
            self._forget(ring.steps * self._n_envs)

    def follow(self, ring: _native.Replay) -> None:
        """
        :param ring: the ring, to which transitions were added
        """
        if ring.steps * self._n_envs >= self._next_block:
            with self._lock:
                end = ring.steps * self._n_envs
                self._advance(ring, end - end % self._block)

    def priorities_changed(self, ring: _native.Replay, ids: npt.NDArray[np.int64]) -> None:
        """
        :param ring: the ring, in which they changed
        :param ids: int64 (B,), copied
        """
        with self._lock:
            self._changed.append(ids.copy())
            self._n_changed += len(ids)
            if self._n_changed > _MOST_CHANGED:
                self._hand_on_priorities(ring)

    @property
    def layouts(self) -> list[ObservationLayout]:
        """Of the observation arrays that are encoded."""
        return [layout for _, layout in self._columns]

    def search(
        self,
        ring: _native.Replay,
        observations: Observations,
        k: int,
        priority_threshold: float | None,
        exclude: npt.ArrayLike | None,
    ) -> SearchResult:
        """
        :param ring: the ring
        :param observations: n rows, as they are stored
        :param k: rows for each
        :param priority_threshold: least priority of a row, or None
        :param exclude: ids that are not wanted, or None
        :return: what was found, of transitions that are stored
        """
        with self._lock:
            self._advance(ring, ring.steps * self._n_envs)
            graph, encoder = self._graph, self.encoder
        found = graph.search(encoder.encode(observations), k, priority_threshold=priority_threshold, exclude=exclude)
        return _checked(found, live_ids(ring, self._n_envs))

    def statistics(self) -> dict[str, float]:
        """
        :return: rows, distinct vectors, native bytes, and transitions left out because they have no valid vector
        """
        found = self._graph.check()
        return {
            "index_rows": found["rows"],
            "index_vectors": found["nodes"],
            "index_nbytes": found["nbytes"],
            "index_left_out": self._left_out,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of native memory that the index holds now."""
        return self._graph.nbytes

    def _advance(self, ring: _native.Replay, end: int) -> None:
        """Hold the stored transitions before ``end``, as they are now."""
        first = live_ids(ring, self._n_envs).start
        if self._first < min(first, self._end):
            self._graph.delete(np.arange(self._first, min(first, self._end), dtype=np.int64))
        self._first = max(self._first, first)
        self._hand_on_priorities(ring)
        # Always in the same blocks, however many transitions one call added.
        start = max(self._end, first)
        while start < end:
            stop = min(self._after(start), end)
            self._insert(ring, np.arange(start, stop, dtype=np.int64))
            start = stop
        self._end = max(self._end, end)
        self._next_block = self._after(self._end)

    def _insert(self, ring: _native.Replay, ids: npt.NDArray[np.int64]) -> None:
        vectors = self.encoder.encode(self._observations(ring, ids))
        valid = np.isfinite(vectors).all(axis=1)
        if self.config.metric == "cosine":
            valid &= vectors.any(axis=1)
        if not valid.all():
            self._left_out += int(len(ids) - valid.sum())
            vectors, ids = vectors[valid], ids[valid]
        if not ring.prioritized:
            self._graph.insert(vectors, ids)
            return
        priorities = ring.priorities(ids)
        stored = np.isfinite(priorities)  # others were overwritten by a thread that is adding now
        self._graph.insert(vectors[stored], ids[stored], priorities[stored])

    def _observations(self, ring: _native.Replay, ids: npt.NDArray[np.int64]) -> Observations:
        rows = ids % (ring.rewards.shape[0] * self._n_envs)
        parts: dict[str | None, npt.NDArray[Any]] = {}
        for column, layout in self._columns:
            out = np.empty((len(rows), *layout.shape), dtype=layout.dtype)
            ring.gather_observations(column, False, rows, out)
            parts[layout.key] = out
        return parts[None] if None in parts else {str(key): part for key, part in parts.items()}

    def _hand_on_priorities(self, ring: _native.Replay) -> None:
        if not self._changed:
            return
        changed, self._changed, self._n_changed = np.unique(np.concatenate(self._changed)), [], 0
        held = changed[(changed >= self._first) & (changed < self._end)]
        priorities = ring.priorities(held)
        live = np.isfinite(priorities)
        self._graph.set_priorities(held[live], priorities[live])

    def restore(self, ring: _native.Replay) -> None:
        """
        :param ring: the ring that the index, which was saved without its graph, belongs to
        """
        end, left_out = self._end, self._left_out
        self._forget(live_ids(ring, self._n_envs).start)
        self._advance(ring, end)
        self._left_out = left_out

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"], state["_graph"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


def _checked(found: SearchResult, live: range) -> SearchResult:
    """Without transitions that were overwritten while the search ran."""
    stale = (found.ids >= 0) & ((found.ids < live.start) | (found.ids >= live.stop))
    if not stale.any():
        return found
    order = np.argsort(stale, axis=1, kind="stable")
    ids, distances, priorities, gone = (np.take_along_axis(part, order, axis=1) for part in (*found, stale))
    return SearchResult(
        np.where(gone, -1, ids), np.where(gone, np.float32(np.inf), distances), np.where(gone, np.nan, priorities)
    )
