"""A replay buffer that can be searched for transitions like a given one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecNormalize

from sb3_webscale.buffers.experience_index import ExperienceIndex, live_ids
from sb3_webscale.buffers.native_replay import NativeReplayBuffer
from sb3_webscale.buffers.prioritization import as_ids
from sb3_webscale.buffers.query_rows import query_rows
from sb3_webscale.buffers.random_seed import native_seed
from sb3_webscale.errors import BufferStateError, InvalidInputError
from sb3_webscale.retrieval.index_config import IndexConfig, parse_index_config
from sb3_webscale.retrieval.vector_index import SearchResult

__all__ = ["IndexedReplayBuffer", "refuse_index"]


class IndexedReplayBuffer(NativeReplayBuffer):
    """What the flat and Dict buffers share: a :class:`~sb3_webscale.buffers.NativeReplayBuffer` that may have an index.

    :param index: settings of an index over the observations, as :class:`~sb3_webscale.retrieval.IndexConfig` or as a
        mapping; None keeps none, and nothing else changes
    :param seed: seed of prioritized draws and of the index's encoder; None follows SB3's seed
    :raises InvalidInputError: when a setting of the index does not suit the space, or there is a ``memory_budget`` too

    Other parameters as :class:`~sb3_webscale.buffers.NativeReplayBuffer`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        index: IndexConfig | Mapping[str, Any] | bool | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        config = parse_index_config(index)
        self._check_index(config, options)
        super().__init__(
            buffer_size, observation_space, action_space, device, n_envs,
            optimize_memory_usage, handle_timeout_termination, seed=seed, **options,
        )  # fmt: skip
        if config is not None:
            self._index = self._new_index(config, seed)

    # What a subclass that cannot have an index says to do instead.
    _instead_of_index: ClassVar[str | None] = None

    @classmethod
    def _check_index(cls, config: IndexConfig | None, options: Mapping[str, Any]) -> None:
        if config is None:
            return
        if cls._instead_of_index is not None:
            raise refuse_index(cls.__name__, cls._instead_of_index)
        if options.get("memory_budget") is not None:
            msg = (
                "index and memory_budget cannot be combined, since an index lies in memory whole: leave one of them out"
            )
            raise InvalidInputError(msg)

    def _new_index(self, config: IndexConfig, seed: int | None) -> ExperienceIndex:
        space = config.encoded_space(self.observation_space)
        encoder = config.build_encoder(space, native_seed(seed, f"{type(self).__name__} encoder"))
        keys = space.spaces.keys() if isinstance(space, spaces.Dict) else (None,)
        columns = [(i, layout) for i, layout in enumerate(self._layouts) if layout.key in keys]
        return ExperienceIndex(config, encoder, columns, self.n_envs, self._capacity)

    def _required_index(self) -> ExperienceIndex:
        if self._index is None:
            msg = f"this {type(self).__name__} has no index to search: build it with index=IndexConfig()"
            raise BufferStateError(msg)
        return self._index

    @property
    def index_config(self) -> IndexConfig | None:
        """Settings of the index, or None when there is none."""
        return None if self._index is None else self._index.config

    def search(
        self,
        observations: Any,
        k: int = 10,
        priority_threshold: float | None = None,
        exclude: Any = None,
        env: VecNormalize | None = None,
    ) -> SearchResult:
        """The stored transitions whose observations are nearest to the given ones, nearest first.

        :param observations: one observation, or n of them, as the environment gives them; a dict for a Dict space, of
            which only the keys that are encoded are needed
        :param k: how many for each
        :param priority_threshold: only transitions of at least this priority (prioritized mode)
        :param exclude: ids that are not wanted, such as that of the transition that the observation is from
        :param env: VecNormalize that has normalised the observations, as those of ``sample(..., env)``; that is undone
        :return: ids, distances between vectors, and priorities (1 in uniform mode), (n, k) each; where there are fewer
            than k, -1, infinity and NaN
        :raises BufferStateError: when the buffer has no index
        :raises InvalidInputError: when an observation does not have the shape or the type of the space
        """
        index = self._required_index()
        if priority_threshold is not None:
            self._required_prioritization()
        rows = query_rows(observations, index.layouts, env)
        excluded = None if exclude is None else as_ids(exclude)
        return index.search(self._replay, rows, k, priority_threshold, excluded)

    def transitions(self, ids: Any, env: VecNormalize | None = None) -> Any:
        """Transitions by their ids, such as those that :meth:`search` found.

        :param ids: int (B,), or of any shape, then taken row by row
        :param env: VecNormalize whose present statistics normalise observations and rewards
        :return: as :meth:`sample`; without weights
        :raises BufferStateError: when an id stands for nothing, or its transition was overwritten
        """
        wanted = as_ids(ids)
        live = live_ids(self._replay, self.n_envs)
        bad = np.flatnonzero((wanted < live.start) | (wanted >= live.stop))
        if len(bad):
            raise _not_stored(int(bad[0]), int(wanted[bad[0]]), live)
        return self._samples_of_rows(wanted % self._capacity, env)

    def statistics(self) -> dict[str, float]:
        """:return: as :meth:`NativeReplayBuffer.statistics`, and rows, distinct vectors and bytes of the index"""
        numbers = super().statistics()
        return numbers if self._index is None else numbers | self._index.statistics()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self._index is not None:
            self._index.restore(self._replay)

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self._index is None else self._index.nbytes)


def refuse_index(class_name: str, instead: str) -> InvalidInputError:
    """
    :param class_name: class of a buffer that cannot have an index
    :param instead: what to do instead
    :return: the error that says so
    """
    msg = f"index is not for a {class_name}: {instead}"
    return InvalidInputError(msg)


def _not_stored(place: int, id: int, live: range) -> BufferStateError:
    if id == -1:
        what = "the padding of a search that found fewer transitions: leave it out, as in ids[ids >= 0]"
    elif 0 <= id < live.start:
        what = f"a transition that was overwritten; the oldest that is stored is {live.start}: search again"
    else:
        what = "no transition's id: take ids from search(), sample() or recent()"
    msg = f"ids[{place}] is {id}, {what}"
    return BufferStateError(msg)
