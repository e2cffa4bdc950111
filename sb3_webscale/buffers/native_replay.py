"""What the flat, Dict and HER buffers share: sampling, uniform and prioritized, with n-step returns."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace as with_changes
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecNormalize

from sb3_webscale.buffers.algorithm_agreement import building_algorithm, check_agreement, sampling_algorithm
from sb3_webscale.buffers.frame_stacks import FrameStacks
from sb3_webscale.buffers.memory_budget import parse_memory_budget
from sb3_webscale.buffers.n_step import n_step_returns
from sb3_webscale.buffers.native_storage import NativeStorage
from sb3_webscale.buffers.numpy_stream import randint
from sb3_webscale.buffers.prefetch import PrefetchQueue
from sb3_webscale.buffers.prioritization import (
    BatchFollower,
    FeedbackWatch,
    Prioritization,
    ProgressWatch,
    SampledBatch,
    as_array,
    as_ids,
    checked_boost,
    checked_td_errors,
)
from sb3_webscale.buffers.random_seed import native_seed
from sb3_webscale.buffers.sample_ages import SampleAges
from sb3_webscale.buffers.samples import WebscaleDictReplayBufferSamples, WebscaleReplayBufferSamples
from sb3_webscale.buffers.sampling_spread import sampling_spread
from sb3_webscale.buffers.tier_statistics import tier_statistics
from sb3_webscale.errors import BufferStateError, InvalidInputError

if TYPE_CHECKING:
    from sb3_webscale._native import NativeBatch, PendingBatch
    from sb3_webscale.buffers.device_copies import DeviceCopies

__all__ = ["NativeReplayBuffer"]

# Batches for which the caller is looked at: a script may sample by hand before it hands the buffer to an algorithm.
_AGREEMENT_CHECKS = 100


class NativeReplayBuffer(NativeStorage):
    """Replay buffer that keeps its transitions in native memory, each distinct observation or frame once.

    In uniform mode it draws the same NumPy random numbers in the same order as SB3's classes and returns the same bits.
    One difference is deliberate: with ``optimize_memory_usage`` the next observation of an episode's last transition is
    the true one, where SB3's is the first of the next episode; so time limits may be handled in that mode too.

    :param buffer_size: capacity in transitions over all environments; as in SB3 each gets
        ``max(buffer_size // n_envs, 1)`` slots
    :param observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict of these
    :param action_space: Box, Discrete, MultiDiscrete or MultiBinary
    :param device: torch device of the samples
    :param n_envs: number of environments that add in parallel
    :param optimize_memory_usage: accepted for compatibility; memory is always saved, but the mode draws indices as
        SB3's does
    :param handle_timeout_termination: bootstrap at time limits (``infos[i]["TimeLimit.truncated"]``)
    :param n_steps: length of n-step returns
    :param gamma: their discount factor; must be the algorithm's
    :param prioritized: sample by priority; see :class:`~sb3_webscale.buffers.prioritization.Prioritization`
    :param alpha: priority exponent, in [0, 1]
    :param beta_start: importance-weight exponent at the start, in [0, 1]
    :param beta_end: the same at the end
    :param beta_steps: environment steps from start to end; None means the whole training
    :param priority_epsilon: added to TD errors
    :param temperature: share of uniform sampling in prioritized mode, in [0, 1]
    :param warmup_fraction: fraction of training that samples uniformly before priorities count; 0.05 is a good choice
    :param alpha_ramp_fraction: fraction of training in which the exponent then grows to ``alpha``
    :param td_clip: bound on TD errors; None leaves them as they are
    :param new_priority: new transitions get the largest priority stored (``"max_stored"``) or ever fed back
        (``"max_ever"``)
    :param seed: seed of prioritized draws; None follows SB3's seed
    :param check_finite: refuse NaN and infinite rewards and observations; False stores them as SB3 does
    :param frame_stack: number of frames stacked in an observation, such as ``VecFrameStack``'s ``n_stack``, or (number,
        axis); for some keys of a Dict space, a dict of these. None detects images only, 1 stands for no stack
    :param memory_budget: bytes, or a string such as ``"2GB"``, that the buffer may hold in memory; observations beyond
        it are kept in files. None keeps everything in memory
    :param spill_dir: directory for these files; needed with a budget
    :param prefetch_size: batches that are drawn ahead and copied out in the background; see
        :class:`~sb3_webscale.buffers.prefetch.PrefetchQueue`. 0 draws each batch when it is asked for, as SB3 does
    :raises InvalidInputError: when a parameter or space is not supported
    :raises ConfigError: when the algorithm that builds the buffer has other n-step settings
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
        n_steps: int = 1,
        gamma: float = 0.99,
        prioritized: bool = False,
        alpha: float = 0.6,
        beta_start: float = 0.4,
        beta_end: float = 1.0,
        beta_steps: int | None = None,
        priority_epsilon: float = 1e-6,
        temperature: float = 0.0,
        warmup_fraction: float = 0.0,
        alpha_ramp_fraction: float = 0.0,
        td_clip: float | None = None,
        new_priority: str = "max_stored",
        seed: int | None = None,
        check_finite: bool = True,
        frame_stack: FrameStacks = None,
        memory_budget: int | str | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        prefetch_size: int = 0,
    ) -> None:
        if n_steps < 1:
            msg = f"n_steps is {n_steps}, but must be at least 1"
            raise InvalidInputError(msg)
        if not 0.0 <= gamma <= 1.0:
            msg = f"gamma is {gamma}, but a discount factor lies in [0, 1]"
            raise InvalidInputError(msg)
        settings = Prioritization(
            alpha, beta_start, beta_end, beta_steps, priority_epsilon,
            temperature, warmup_fraction, alpha_ramp_fraction, td_clip, new_priority,
        )  # fmt: skip
        check_agreement(building_algorithm(), type(self).__name__, n_steps, gamma)
        self._frame_stack = self._frame_stack if frame_stack is None else frame_stack
        self._prefetch = self._prefetch_queue(prefetch_size)
        self._budget = self._budget or parse_memory_budget(memory_budget, spill_dir)
        super().__init__(
            buffer_size, observation_space, action_space, device, n_envs,
            optimize_memory_usage, handle_timeout_termination, check_finite,
        )  # fmt: skip
        self.n_steps = n_steps
        self.gamma = float(gamma)
        self._agreement_checks_left = _AGREEMENT_CHECKS
        self._progress = 0.0
        self._stale_updates = 0
        self._stale_marks = 0
        self._clipped_td_errors = 0
        self._sample_ages = SampleAges()
        self.prioritization: Prioritization | None = None
        self.last_batch: SampledBatch | None = None
        self.batch_follower: BatchFollower | None = None
        self._watch = FeedbackWatch()
        self._progress_watch = ProgressWatch()
        if prioritized:
            self._prioritize(settings, seed)
        if not self._options_follow:
            self._limit_memory(self._replay)

    # Whether batches come from one draw of one ring, so that they can be drawn ahead.
    _can_prefetch = True
    _prefetch: PrefetchQueue | None = None

    @classmethod
    def _prefetch_queue(cls, size: int) -> PrefetchQueue | None:
        if size != 0 and not cls._can_prefetch:
            msg = f"prefetch_size is {size}, but a {cls.__name__} cannot draw batches ahead: leave prefetch_size=0"
            raise InvalidInputError(msg)
        return PrefetchQueue(size) if size != 0 else None

    @property
    def prefetch_size(self) -> int:
        """Batches that are drawn ahead."""
        return 0 if self._prefetch is None else self._prefetch.size

    # Whether a subclass sets prioritized replay and the memory limit up after this class is constructed.
    _options_follow = False

    def _prioritize(self, settings: Prioritization, seed: int | None) -> None:
        self.prioritization = settings
        self._replay.prioritize(settings.alpha_at(self._progress), native_seed(seed, type(self).__name__))
        self._replay.set_temperature(settings.temperature)
        self._replay.set_new_priority(max_ever=settings.new_priority == "max_ever")

    def sample(self, batch_size: int, env: VecNormalize | None = None, *, replace: bool = True) -> Any:
        """Draw transitions, uniformly or by priority.

        :param batch_size: number of transitions B; repeats may occur
        :param env: VecNormalize whose present statistics normalise observations and rewards
        :param replace: False draws B different transitions (uniform mode only)
        :return: :class:`WebscaleReplayBufferSamples`, or :class:`WebscaleDictReplayBufferSamples` for a Dict space
        :raises BufferStateError: when nothing is stored, or fewer than B transitions and ``replace`` is False
        """
        batch = self._draw(batch_size, env, replace)
        if batch.weights is not None:
            self._remember(batch)
        return batch

    def _draw(self, batch_size: int, env: VecNormalize | None, replace: bool) -> Any:
        """A batch that nobody has been told about yet."""
        self._check_sample(batch_size, replace)
        if self._prefetch is not None:
            return self._prefetched(self._prefetch, batch_size, env, replace)
        if self.prioritization is not None:
            return self._samples(self._replay.sample(batch_size, self.beta, self.n_steps), env)
        if not replace:
            return self._samples_of_rows(self._distinct_rows(batch_size), env)
        return self._get_samples(self._uniform_slots(batch_size), env=env)

    def _prefetched(self, queue: PrefetchQueue, batch_size: int, env: VecNormalize | None, replace: bool) -> Any:
        # VecNormalize works on the host, with its statistics at delivery.
        device = th.device(self.device) if env is None else None
        batch = queue.next_batch(
            (batch_size, replace, self.n_steps),
            lambda: self._begin(batch_size, replace),
            device if device is not None and device.type == "cuda" else None,
        )
        return self._samples(batch.arrays, env, batch.copies)

    def _begin(self, batch_size: int, replace: bool) -> PendingBatch:
        """Draw as :meth:`_draw` does, and leave the observations for later."""
        if self.prioritization is not None:
            return self._replay.begin_sample(batch_size, self.beta, self.n_steps)
        rows = self._rows_of(self._uniform_slots(batch_size)) if replace else self._distinct_rows(batch_size)
        return self._replay.begin_gather(rows, self.n_steps)

    def _check_sample(self, batch_size: int, replace: bool) -> None:
        if self._agreement_checks_left > 0:
            algorithm = sampling_algorithm(self)
            check_agreement(algorithm, type(self).__name__, self.n_steps, self.gamma)
            self._agreement_checks_left = 0 if algorithm is not None else self._agreement_checks_left - 1
        if batch_size < 1:
            msg = f"batch_size is {batch_size}, but must be at least 1"
            raise InvalidInputError(msg)
        stored = self._stored
        if stored == 0:
            msg = (
                f"cannot sample {batch_size} transitions, since none is stored: add transitions first (learning_starts)"
            )
            raise BufferStateError(msg)
        if not replace and self.prioritization is not None:
            msg = "replace=False is for uniform sampling, but this buffer is prioritized: leave replace=True"
            raise InvalidInputError(msg)
        if not replace and batch_size > stored:
            msg = (
                f"batch_size is {batch_size}, but only {stored} transitions are stored and replace=False asks for "
                "different ones: take a smaller batch, add more first, or leave replace=True"
            )
            raise BufferStateError(msg)

    def _uniform_slots(self, batch_size: int) -> npt.NDArray[np.int64]:
        # The calls and their order are those of SB3's ReplayBuffer.sample.
        saves_memory = self.optimize_memory_usage and not self.handle_timeout_termination
        if saves_memory and self.full and self.buffer_size > 1:
            return (randint(1, self.buffer_size, batch_size) + self.pos) % self.buffer_size
        return randint(0, self.size(), batch_size)

    def _distinct_rows(self, batch_size: int) -> npt.NDArray[np.int64]:
        # NumPy's own choice without replacement would permute the whole buffer for each batch.
        stored = self._stored
        seed = np.random.randint(0, 2**63 - 1, dtype=np.int64)  # noqa: NPY002
        return np.random.default_rng(seed).choice(stored, size=batch_size, replace=False, shuffle=False)

    def _get_samples(self, batch_inds: npt.NDArray[np.int64], env: VecNormalize | None = None) -> Any:
        return self._samples_of_rows(self._rows_of(batch_inds), env)

    def _rows_of(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self.n_envs == 1:  # SB3 asks for an environment here too, which takes nothing from the stream
            return np.ascontiguousarray(slots, dtype=np.int64)
        return slots * self.n_envs + randint(0, self.n_envs, len(slots))

    def _samples_of_rows(self, rows: npt.NDArray[np.int64], env: VecNormalize | None) -> Any:
        return self._samples(self._replay.gather(rows, self.n_steps), env)

    def _samples(self, gathered: NativeBatch, env: VecNormalize | None, copies: DeviceCopies | None = None) -> Any:
        obs, next_obs, actions, terminals, rewards, ids, lengths, weights = gathered
        self._note_ages(ids)
        # Every array was made for this batch, so sharing its memory with a tensor is safe.
        on_host = th.device(self.device).type == "cpu"
        tensor: Callable[[Any], th.Tensor] = th.from_numpy if on_host else partial(self.to_torch, copy=False)
        if copies is not None:
            tensor = copies.before(tensor, self.device)
        rewards = self._normalize_reward(rewards, env)
        discounts = None
        if lengths is not None:
            rewards, powers = n_step_returns(rewards, lengths, self.gamma)
            discounts = tensor(powers)
        return self._samples_class(
            self._tensors(obs, env, tensor),
            tensor(actions),
            self._tensors(next_obs, env, tensor),
            tensor(terminals),
            tensor(rewards),
            discounts,
            tensor(ids),
            None if weights is None else tensor(weights),
        )

    def _note_ages(self, ids: npt.NDArray[np.int64]) -> None:
        self._sample_ages.note(ids, self._replay.steps)

    @property
    def _age_unit(self) -> int:
        """Ids for each unit of age."""
        return self.n_envs

    def _tensors(
        self, parts: list[npt.NDArray[Any]], env: VecNormalize | None, tensor: Callable[[Any], th.Tensor]
    ) -> Any:
        normalised = self._normalize_obs(self._keyed(parts), env)
        if isinstance(normalised, dict):
            return {key: tensor(part) for key, part in normalised.items()}
        return tensor(normalised)

    @property
    def _samples_class(self) -> type[WebscaleReplayBufferSamples] | type[WebscaleDictReplayBufferSamples]:
        return WebscaleReplayBufferSamples if self._layouts[0].key is None else WebscaleDictReplayBufferSamples

    def _remember(self, batch: WebscaleReplayBufferSamples | WebscaleDictReplayBufferSamples) -> None:
        assert batch.indices is not None
        assert batch.weights is not None
        self.last_batch = SampledBatch(as_ids(batch.indices), batch.weights)
        self._watch.sampled()
        if self.prioritization is not None and self.prioritization.scheduled:
            self._progress_watch.sampled()
        if self.batch_follower is not None:
            self.batch_follower.follow_batch()

    @property
    def prioritized(self) -> bool:
        """Whether transitions are drawn by priority."""
        return self.prioritization is not None

    def _required_prioritization(self) -> Prioritization:
        if self.prioritization is None:
            msg = (
                f"this {type(self).__name__} samples uniformly and keeps no priorities: build it with prioritized=True"
            )
            raise BufferStateError(msg)
        return self.prioritization

    @property
    def beta(self) -> float:
        """Importance-weight exponent now."""
        return self._required_prioritization().beta(self._steps_added, self._progress)

    def set_progress(self, progress: float) -> None:
        """
        :param progress: fraction of training done, in [0, 1]; moves beta when ``beta_steps`` is None, and the exponent
            through warm-up and ramp. A change of the exponent is O(n), and a ramp has 20.
        """
        if not math.isfinite(progress):
            msg = f"progress is {progress}, but must be a fraction of the training in [0, 1]"
            raise InvalidInputError(msg)
        self._progress = min(max(progress, 0.0), 1.0)
        self._progress_watch.reported()
        if self.prioritization is not None and self.prioritization.scheduled:
            alpha = self.prioritization.alpha_at(self._progress)
            if alpha != self._replay.alpha:
                self._replay.set_alpha(alpha)

    def set_temperature(self, temperature: float) -> None:
        """Blend priority and uniform sampling: P = (1 - t) * P_priority + t / N, exactly, and weights follow it.

        :param temperature: t, in [0, 1]; 0 draws by priority alone. Leaving 0 or returning to it is O(n).
        :raises InvalidInputError: when it is outside [0, 1]
        """
        self.prioritization = with_changes(self._required_prioritization(), temperature=temperature)
        self._replay.set_temperature(temperature)

    def update_priorities(self, ids: Any, td_errors: Any) -> int:
        """Set the priorities of sampled transitions to their TD errors, cut at ``td_clip``, plus ``priority_epsilon``.

        :param ids: int (B,), the ``indices`` of a batch
        :param td_errors: magnitudes, B elements
        :return: how many were set; transitions overwritten since are skipped, and counted in ``statistics()``
        :raises InvalidInputError: when a TD error is NaN, infinite or negative; no priority is changed then
        """
        settings = self._required_prioritization()
        ids = as_ids(ids)
        values = as_array(td_errors)
        bounds = settings.epsilon, settings.ceiling
        counts = self._replay.try_update_priorities(ids, values, *bounds)
        if counts is None:
            # Of another type or shape, or wrong: convert it, or say what is wrong.
            counts = self._replay.try_update_priorities(ids, checked_td_errors(values, len(ids)), *bounds)
        assert counts is not None
        updated, stale, clipped = counts
        self._stale_updates += stale
        self._clipped_td_errors += clipped
        self._watch.fed()
        if self._index is not None:
            self._index.priorities_changed(self._replay, ids)
        return updated

    def mark_for_replay(self, ids: Any, boost: float = 1.5) -> int:
        """Multiply the priorities of single transitions, until the next TD error for them comes in.

        :param ids: int (B,), from a batch or :meth:`recent`; one that is given twice is raised once
        :param boost: factor, at least 1
        :return: how many were raised; transitions that were overwritten or cannot be drawn are skipped, and counted in
            ``statistics()``
        :raises InvalidInputError: when ``boost`` is not a finite number of at least 1
        """
        self._required_prioritization()
        ids = as_ids(ids)
        raised, stale = self._replay.raise_priorities(ids, checked_boost(boost))
        self._stale_marks += stale
        if self._index is not None:
            self._index.priorities_changed(self._replay, ids)
        return raised

    def recent(self, count: int) -> npt.NDArray[np.int64]:
        """
        :param count: how many transitions, over all environments; at least 0
        :return: int64 ids of the last ``count`` transitions, or all when fewer are stored, oldest first: step by step,
            and env by env in a step
        :raises InvalidInputError: when ``count`` is negative
        """
        if count < 0:
            msg = f"count is {count}, but must be at least 0"
            raise InvalidInputError(msg)
        end = self._replay.steps * self.n_envs
        return np.arange(end - min(count, self._stored), end, dtype=np.int64)

    def priorities(self, ids: Any) -> npt.NDArray[np.float64]:
        """
        :param ids: int (B,)
        :return: float64 (B,), priorities before the exponent; NaN where the transition was overwritten
        """
        self._required_prioritization()
        return self._replay.priorities(as_ids(ids))

    def statistics(self) -> dict[str, float]:
        """
        :return: fill, bytes, under a memory budget where frames lie, ages of the latest samples, and in prioritized
            mode the exponents, how the probability of being drawn spreads, and feedback that came too late. In
            prioritized mode O(n): one pass in native code.
        """
        numbers: dict[str, float] = {
            "transitions": self._stored,
            "capacity": self._capacity,
            "fill": self._stored / self._capacity,
            "nbytes": self.nbytes,
        }
        numbers |= tier_statistics(self._replay)
        numbers |= self._sample_ages.statistics(self._age_unit)
        if self.prioritization is not None:
            numbers |= sampling_spread(self._replay) | {
                "alpha": self._replay.alpha,
                "beta": self.beta,
                "temperature": self.prioritization.temperature,
                "max_priority": self._replay.max_priority,
                "stale_updates": self._stale_updates,
                "stale_marks": self._stale_marks,
                "clipped_td_errors": self._clipped_td_errors,
            }
        return numbers

    @property
    def _saved_with_priorities(self) -> bool:
        return self.prioritized

    def reset(self) -> None:
        if self._prefetch is not None:
            self._prefetch.clear()
        super().reset()
        self.last_batch = None
        self._sample_ages = SampleAges()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # The algorithm that loads the buffer may be another one; the batch in flight is not resumed.
        state["attributes"] |= {"last_batch": None, "batch_follower": None, "_agreement_checks_left": _AGREEMENT_CHECKS}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # The first buffers of this format had none of these.
        later = {
            "_stale_marks": 0,
            "_clipped_td_errors": 0,
            "_sample_ages": SampleAges(),
            "_progress_watch": ProgressWatch(),
            "_agreement_checks_left": _AGREEMENT_CHECKS,
        }
        self.__dict__.update({name: value for name, value in later.items() if name not in self.__dict__})
        if self.prioritization is not None:
            self._replay.set_new_priority(max_ever=self.prioritization.new_priority == "max_ever")
