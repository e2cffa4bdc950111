"""A replay buffer for many writers: streams of experience spread over shards by episode, sampled as one."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecNormalize

from sb3_webscale import _native
from sb3_webscale.buffers.indexed_replay import refuse_index
from sb3_webscale.buffers.native_replay import NativeReplayBuffer
from sb3_webscale.buffers.numpy_stream import randint
from sb3_webscale.buffers.prioritization import Prioritization
from sb3_webscale.buffers.random_seed import native_seed
from sb3_webscale.buffers.state import native_state, restore_native
from sb3_webscale.errors import BufferStateError, InvalidInputError

__all__ = ["ShardedReplayBuffer"]

_DEFAULT_WINDOWS = 16
_INSTEAD_OF_INDEX = "each shard would need its own; use WebscaleReplayBuffer"


class ShardedReplayBuffer(NativeReplayBuffer):
    """Drop-in replay buffer whose streams are written independently, by threads or by actor processes.

    A stream is one environment. Each episode lies in one shard, chosen by a hash of its stream and number; in a shard
    each stream has a ring of its own, with its own lock. So writers of different streams never wait for each other, may
    run at different speeds, and observations are still shared and n-step windows still exact. Batches are drawn over
    all shards in proportion to priority (or uniformly), exactly as from one buffer that holds the same transitions, and
    from one state: writers wait meanwhile. Within a batch, rows lie shard by shard.

    Transitions are numbered in the order in which they come in; ``window_size`` consecutive ones are a time window. A
    shard's ring overwrites its own oldest transition when it is full: keep several episodes' worth in each, that is
    ``buffer_size`` well above ``shards`` times the environments times the length of an episode.

    :param shards: number of shards; a power of two is not needed
    :param actor_streams: streams beside the ``n_envs`` that ``add`` writes, for :meth:`add_streams` and actor processes
    :param window_size: transitions in a time window; None is 1/16 of ``buffer_size``
    :param keep_windows: newest windows that are sampled, the running one included; older transitions rest until they
        are overwritten. None samples all
    :param window_decay: factor on the probability for each window of age, in (0, 1]; importance weights follow it

    Other parameters as :class:`~sb3_webscale.buffers.native_replay.NativeReplayBuffer`, Dict spaces included;
    ``optimize_memory_usage``, ``memory_budget``, ``prefetch_size`` and ``index`` are refused.

    :raises InvalidInputError: when a parameter or space is not supported
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
        shards: int = 4,
        actor_streams: int = 0,
        window_size: int | None = None,
        keep_windows: int | None = None,
        window_decay: float = 1.0,
        **options: Any,
    ) -> None:
        least = {"shards": (shards, 1), "actor_streams": (actor_streams, 0), "n_envs": (n_envs, 1)}
        least |= {
            name: (value, 1)
            for name, value in (("window_size", window_size), ("keep_windows", keep_windows))
            if value is not None
        }
        for name, (value, bound) in least.items():
            if value < bound:
                msg = f"{name} is {value}, but must be at least {bound}"
                raise InvalidInputError(msg)
        if not 0.0 < window_decay <= 1.0:
            msg = f"window_decay is {window_decay}, but must lie in (0, 1]: 1 treats all windows alike"
            raise InvalidInputError(msg)
        if optimize_memory_usage or options.get("memory_budget") is not None:
            name = "optimize_memory_usage" if optimize_memory_usage else "memory_budget"
            msg = f"{name} is not for a ShardedReplayBuffer: leave it out, or use WebscaleReplayBuffer"
            raise InvalidInputError(msg)
        if options.pop("index", None) is not None:
            raise refuse_index(type(self).__name__, _INSTEAD_OF_INDEX)
        self.shards = shards
        self.actor_streams = actor_streams
        self.window_size = window_size or max(buffer_size // _DEFAULT_WINDOWS, 1)
        self.keep_windows = keep_windows
        self.window_decay = float(window_decay)
        seed = options.get("seed")
        self._hash_seed = native_seed(seed, f"{type(self).__name__} episodes")
        self._lanes: list[_native.Replay] = []
        self._lane_capacity = max(buffer_size // (shards * (n_envs + actor_streams)), 1)
        super().__init__(
            buffer_size, observation_space, action_space, device, n_envs, False, handle_timeout_termination, **options
        )

    _can_prefetch = False

    @property
    def streams(self) -> int:
        """Number of streams: ``n_envs`` for :meth:`add`, then ``actor_streams``."""
        return self.n_envs + self.actor_streams

    @property
    def _sharded(self) -> _native.ShardedReplay:
        sharded: Any = self._native
        assert isinstance(sharded, _native.ShardedReplay)
        return sharded

    def _new_native(self) -> Any:
        self._lanes = [self._new_ring(self._lane_capacity, 1) for _ in range(self.shards * self.streams)]
        return self._shards_of_lanes()

    def _shards_of_lanes(self) -> Any:
        return _native.ShardedReplay(
            self._lanes, self.streams, self._hash_seed, self.window_size, self.keep_windows, self.window_decay
        )

    def _prioritize(self, settings: Prioritization, seed: int | None) -> None:
        super()._prioritize(settings, seed)
        self._generator = np.random.Generator(np.random.Philox(native_seed(seed, type(self).__name__)))

    def _limit_memory(self, replay: _native.Replay) -> None:
        """There is no budget to keep to."""

    @property
    def _live_ring(self) -> NoReturn:
        msg = (
            "a ShardedReplayBuffer has no single ring of transitions to view or change: use sample(), add() and reset()"
        )
        raise BufferStateError(msg)

    @property
    def _stored(self) -> int:
        return self._sharded.stored

    @property
    def _capacity(self) -> int:
        return self._lane_capacity * self.shards * self.streams

    def size(self) -> int:
        """Transitions stored over all streams, divided by ``n_envs`` as in SB3."""
        return self._stored // self.n_envs

    @property
    def beta(self) -> float:
        return self._required_prioritization().beta(self._sharded.arrivals, self._progress)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        self._add_streams(0, self.n_envs, obs, next_obs, action, reward, done, infos)

    def add_streams(
        self, first_stream: int, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any
    ) -> None:
        """Store one step of some streams; any thread may do so for streams of its own, while others add and sample.

        :param first_stream: number of the first of the S streams given
        :param obs: (S, *obs_shape), or a dict of them; the other arguments as for ``add``
        :param infos: S dicts, ``TimeLimit.truncated`` is read
        :raises DataError: when a value is NaN or infinite, or a shape is wrong; nothing is stored then
        :raises InvalidInputError: when there is no such stream
        """
        count = int(np.size(done))
        if not 0 <= first_stream < first_stream + count <= self.streams:
            msg = (
                f"streams {first_stream} to {first_stream + count - 1} are given, but there are 0 to {self.streams - 1}"
            )
            raise InvalidInputError(msg)
        self._add_streams(first_stream, count, obs, next_obs, action, reward, done, infos)

    def _add_streams(
        self, first: int, count: int, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any
    ) -> None:
        handled = self.handle_timeout_termination
        if not self._sharded.try_add_step(
            first, count, obs, next_obs, action, reward, done, infos, handled, self.check_finite
        ):
            timeouts = self._converter(count).timeouts(infos, handled)
            self._convert_and_add(first, count, obs, next_obs, action, reward, done, timeouts)

    def add_steps(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, timeouts: npt.NDArray[np.float32]
    ) -> None:
        self._convert_and_add(0, self.n_envs, obs, next_obs, action, reward, done, timeouts)

    def _convert_and_add(
        self, first: int, count: int, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, timeouts: Any
    ) -> None:
        converter = self._converter(count)
        steps = converter.convert(obs, next_obs, action, reward, done, timeouts)
        found = self._sharded.add_steps(first, count, *steps, self.check_finite)
        if found is not None:
            raise converter.non_finite(found, obs, next_obs)

    def end_episode(self, stream: int) -> None:
        """Cut the running episode of a stream whose writer stopped: its last transition counts as truncated.

        :param stream: number of the stream; nothing happens when its last episode has ended
        """
        self._sharded.end_episode(stream)

    def sample(
        self,
        batch_size: int,
        env: VecNormalize | None = None,
        *,
        replace: bool = True,
        windows: range | None = None,
    ) -> Any:
        """Draw transitions over all shards, uniformly or by priority.

        :param batch_size: number of transitions B; repeats may occur
        :param env: VecNormalize whose present statistics normalise observations and rewards
        :param replace: False draws B different transitions (uniform mode only)
        :param windows: time windows to draw from, such as ``range(newest - 3, newest + 1)``; None is all that are kept
        :return: as :meth:`NativeReplayBuffer.sample`
        :raises BufferStateError: when nothing is stored (in these windows), or fewer than B transitions and ``replace``
            is False
        """
        batch = self._draw(batch_size, env, replace, windows)
        if batch.weights is not None:
            self._remember(batch)
        return batch

    def _draw(self, batch_size: int, env: VecNormalize | None, replace: bool, windows: range | None = None) -> Any:
        self._check_sample(batch_size, replace)
        unrestricted = windows is None and self.keep_windows is None and self.window_decay == 1.0
        if not replace and not unrestricted:
            msg = "replace=False cannot be combined with time windows: leave replace=True, or sample from all windows"
            raise InvalidInputError(msg)
        if windows is None:
            windows = range(2**62)
        elif windows.step != 1 or windows.start < 0:
            msg = f"windows is {windows}, but must be consecutive window numbers, such as range(3, 7)"
            raise InvalidInputError(msg)
        if self.prioritization is not None:
            beta = self.beta
            # One from each equal part of the total probability.
            places = (np.arange(batch_size) + self._generator.random(batch_size)) / batch_size
        else:
            beta = None
            places = self._uniform_places(batch_size, replace, unrestricted)
        end = None if windows.stop >= 2**62 else windows.stop
        try:
            gathered = self._sharded.sample(places, beta, windows.start, end, self.n_steps)
        except RuntimeError as error:
            msg = f"cannot sample {batch_size} transitions: {error}. {self.newest_window} is the newest window"
            raise BufferStateError(msg) from error
        return self._samples(gathered, env)

    def _uniform_places(self, batch_size: int, replace: bool, unrestricted: bool) -> npt.NDArray[np.float64]:
        # Sorted, so that the rows of a shard lie side by side.
        if not unrestricted:
            return np.sort(np.random.random_sample(batch_size))  # noqa: NPY002
        stored = self._stored
        if replace:
            numbers = randint(0, stored, batch_size)
        else:
            numbers = self._distinct_rows(batch_size)
        return (np.sort(numbers) + 0.5) / stored

    @property
    def newest_window(self) -> int:
        """Number of the time window that the last transition fell into; -1 before the first."""
        return (self._sharded.arrivals - 1) // self.window_size

    def window_of(self, ids: Any) -> npt.NDArray[np.int64]:
        """
        :param ids: int (B,)
        :return: int64 (B,), number of each transition's time window; -1 where it was overwritten
        """
        arrivals = self._sharded.arrivals_of(np.ascontiguousarray(ids, dtype=np.int64).reshape(-1))
        return np.where(arrivals < 0, -1, arrivals // self.window_size)

    def recent(self, count: int) -> npt.NDArray[np.int64]:
        if count < 0:
            msg = f"count is {count}, but must be at least 0"
            raise InvalidInputError(msg)
        return self._sharded.recent(count)

    def _note_ages(self, ids: npt.NDArray[np.int64]) -> None:
        self._sample_ages.note(self._sharded.arrivals_of(ids), self._sharded.arrivals)

    def statistics(self) -> dict[str, float]:
        """:return: as :meth:`NativeReplayBuffer.statistics`, ages in transitions of all streams together"""
        return super().statistics()

    @property
    def _age_unit(self) -> int:
        return 1

    def _saved_native(self) -> dict[str, Any]:
        return {
            "lanes": [native_state(lane, len(self._layouts), 1) for lane in self._lanes],
            "lane_arrivals": [self._sharded.lane_arrivals(lane) for lane in range(len(self._lanes))],
            "streams": self._sharded.stream_states(),
            "arrivals": self._sharded.arrivals,
        }

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["attributes"]["_lanes"] = []
        return state

    def _restored_native(self, state: dict[str, Any]) -> Any:
        sharded = self._new_native()
        for ring, saved in zip(self._lanes, state["lanes"], strict=True):
            restore_native(ring, saved, len(self._layouts), self._saved_with_priorities, self._limit_memory)
        sharded.restore(state["streams"], state["arrivals"])
        for lane, arrivals in enumerate(state["lane_arrivals"]):
            sharded.restore_lane(lane, np.ascontiguousarray(arrivals))
        if self.prioritization is not None:
            sharded.set_temperature(self.prioritization.temperature)
        return sharded
