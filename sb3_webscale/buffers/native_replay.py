"""What the flat, Dict and HER buffers share: SB3's buffer interface on top of the native replay."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize

from sb3_webscale import _native
from sb3_webscale.buffers.algorithm_agreement import calling_algorithm, check_agreement
from sb3_webscale.buffers.n_step import n_step_windows
from sb3_webscale.buffers.observation_view import ObservationView
from sb3_webscale.buffers.prioritization import FeedbackWatch, Prioritization, SampledBatch, checked_td_errors
from sb3_webscale.buffers.random_seed import native_seed
from sb3_webscale.buffers.samples import WebscaleDictReplayBufferSamples, WebscaleReplayBufferSamples
from sb3_webscale.buffers.spaces import ActionLayout, ObservationLayout, action_layout, observation_layouts
from sb3_webscale.buffers.state import FORMAT, native_state, restore_native
from sb3_webscale.errors import BufferStateError, DataError, InvalidInputError, SnapshotFormatError

__all__ = ["NativeReplayBuffer", "as_ids"]

Arrays = dict[str | None, npt.NDArray[Any]]


class NativeReplayBuffer(ReplayBuffer):
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
    :param optimize_memory_usage: accepted for compatibility; memory is always saved, but the mode draws indices as SB3's
        does
    :param handle_timeout_termination: bootstrap at time limits (``infos[i]["TimeLimit.truncated"]``)
    :param n_steps: length of n-step returns
    :param gamma: their discount factor; must be the algorithm's
    :param prioritized: sample by priority; see :class:`~sb3_webscale.buffers.prioritization.Prioritization`
    :param alpha: priority exponent, in [0, 1]
    :param beta_start: importance-weight exponent at the start, in [0, 1]
    :param beta_end: the same at the end
    :param beta_steps: environment steps from start to end; None means the whole training
    :param priority_epsilon: added to TD errors
    :param seed: seed of prioritized draws; None follows SB3's seed
    :param check_finite: refuse NaN and infinite rewards and observations; False stores them as SB3 does
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
        seed: int | None = None,
        check_finite: bool = True,
    ) -> None:
        for name, count in (("buffer_size", buffer_size), ("n_envs", n_envs), ("n_steps", n_steps)):
            if count < 1:
                msg = f"{name} is {count}, but must be at least 1"
                raise InvalidInputError(msg)
        if not 0.0 <= gamma <= 1.0:
            msg = f"gamma is {gamma}, but a discount factor lies in [0, 1]"
            raise InvalidInputError(msg)
        settings = Prioritization(alpha, beta_start, beta_end, beta_steps, priority_epsilon)
        self._native: _native.Replay | None = None
        self._layouts: list[ObservationLayout] = observation_layouts(observation_space)
        self._action_layout: ActionLayout = action_layout(action_space)
        check_agreement(calling_algorithm(), type(self).__name__, n_steps, gamma)
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.n_steps = n_steps
        self.gamma = gamma
        self.check_finite = check_finite
        self._agreement_checked = False
        self._steps_added = 0
        self._progress = 0.0
        self._stale_updates = 0
        self.prioritization: Prioritization | None = None
        self.last_batch: SampledBatch | None = None
        self._watch = FeedbackWatch()
        self._warn_if_too_large()
        self._native = self._new_native()
        if prioritized:
            self._prioritize(settings, seed)

    def _new_native(self) -> _native.Replay:
        columns = [(layout.row_bytes, layout.frames, layout.dtype.name) for layout in self._layouts]
        action_bytes = self._action_layout.dim * self._action_layout.dtype.itemsize
        return _native.Replay(self.buffer_size, self.n_envs, columns, action_bytes)

    def _prioritize(self, settings: Prioritization, seed: int | None) -> None:
        self.prioritization = settings
        self._replay.prioritize(settings.alpha, native_seed(seed, type(self).__name__))

    def _warn_if_too_large(self) -> None:
        frame_bytes = sum(layout.row_bytes // layout.frames for layout in self._layouts)
        expected = self.buffer_size * self.n_envs * (frame_bytes + self._action_layout.dim * 8)
        available = psutil.virtual_memory().available
        if expected > available:
            warnings.warn(
                f"a full {type(self).__name__} of {self.buffer_size * self.n_envs} transitions needs at least "
                f"{expected / 1e9:.2f} GB, but {available / 1e9:.2f} GB are available: a buffer_size of "
                f"{int(self.buffer_size * self.n_envs * available / expected)} would fit",
                stacklevel=2,
            )

    @property
    def _replay(self) -> _native.Replay:
        assert self._native is not None
        return self._native

    # What SB3 reads and writes -----------------------------------------------------------------------------------

    @property  # type: ignore[override]
    def pos(self) -> int:
        """Slot that the next step is written to."""
        return self._native.position if self._native is not None else 0

    @pos.setter
    def pos(self, value: int) -> None:
        self._refuse_change("pos", self.pos, value)

    @property  # type: ignore[override]
    def full(self) -> bool:
        """Whether every slot holds a transition."""
        return self._native.full if self._native is not None else False

    @full.setter
    def full(self, value: bool) -> None:
        self._refuse_change("full", self.full, value)

    def _refuse_change(self, name: str, now: int, wanted: int) -> None:
        if now != wanted:
            msg = f"{name} is {now} and follows what was added, so it cannot be set to {wanted}: use add() or reset()"
            raise BufferStateError(msg)

    @property  # type: ignore[override]
    def actions(self) -> npt.NDArray[Any]:
        """Live view, shape (buffer_size, n_envs, action_dim)."""
        return self._replay.actions.view(self._action_layout.dtype)

    @property  # type: ignore[override]
    def rewards(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._replay.rewards

    @property  # type: ignore[override]
    def dones(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._replay.dones

    @property  # type: ignore[override]
    def timeouts(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._replay.timeouts

    @timeouts.setter
    def timeouts(self, value: npt.ArrayLike) -> None:
        self._replay.timeouts[...] = value

    @property  # type: ignore[override]
    def observations(self) -> Any:
        """Read-only view, or one for each key of a Dict space."""
        return self._observation_views(following=False)

    @property  # type: ignore[override]
    def next_observations(self) -> Any:
        """Read-only view, or one for each key of a Dict space."""
        return self._observation_views(following=True)

    def _observation_views(self, following: bool) -> Any:
        shape = (self.buffer_size, self.n_envs)
        views = {
            layout.key: ObservationView(self._replay, column, layout, following, shape)
            for column, layout in enumerate(self._layouts)
        }
        return self._unkeyed(views)

    @staticmethod
    def _unkeyed(parts: dict[str | None, Any]) -> Any:
        """The single array of a flat space, or the mapping of a Dict space."""
        return parts[None] if None in parts else parts

    @property
    def nbytes(self) -> int:
        """Bytes of native memory that the buffer holds now; untouched parts of empty slots are counted too."""
        return self._replay.nbytes

    def reset(self) -> None:
        """Forget every transition. Ids are not reused."""
        self._replay.clear()
        self.last_batch = None

    # Adding ------------------------------------------------------------------------------------------------------

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: npt.ArrayLike,
        reward: npt.ArrayLike,
        done: npt.ArrayLike,
        infos: Any,
    ) -> None:
        """Store one step of every environment.

        :param obs: (n_envs, *obs_shape), or a dict of them
        :param next_obs: the same after the step; at the end of an episode the terminal observation
        :param action: (n_envs, ...) of action_dim elements each
        :param reward: (n_envs,)
        :param done: (n_envs,), terminated or truncated
        :param infos: one dict for each environment, ``TimeLimit.truncated`` is read
        :raises DataError: when a value is NaN or infinite, or a shape is wrong; nothing is stored then
        """
        timeouts = np.zeros(self.n_envs, dtype=np.float32)
        if self.handle_timeout_termination:
            timeouts[:] = [info.get("TimeLimit.truncated", False) for info in infos]
        self.add_steps(obs, next_obs, action, reward, done, timeouts)

    def add_steps(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, timeouts: npt.NDArray[np.float32]
    ) -> None:
        """Store many consecutive steps of every environment at once. More than fit keep the newest.

        :param obs: (T * n_envs, *obs_shape) for T steps, step after step, or a dict of such arrays
        :param next_obs: the same
        :param action: T * n_envs rows of action_dim elements
        :param reward: (T * n_envs,)
        :param done: (T * n_envs,), terminated or truncated
        :param timeouts: (T * n_envs,), truncated and therefore bootstrapped
        :raises DataError: when a value is NaN or infinite, or a shape is wrong; nothing is stored then
        """
        rows = len(timeouts)
        if rows % self.n_envs != 0:
            msg = f"{rows} rows were given, but with {self.n_envs} environments their number must be a multiple of {self.n_envs}"
            raise DataError(msg)
        timeouts = np.ascontiguousarray(timeouts, dtype=np.float32)
        rewards = _contiguous(reward, np.dtype(np.float32), rows, "reward")
        if self.check_finite and not np.isfinite(rewards).all():
            row = int(np.flatnonzero(~np.isfinite(rewards))[0])
            msg = f"reward of {self._place(row)} is {rewards[row]}, but rewards must be finite: {_FINITE_FIX}"
            raise DataError(msg)
        found = self._replay.add(
            self._observation_arrays(obs, rows, "obs"),
            self._observation_arrays(next_obs, rows, "next_obs"),
            _contiguous(action, self._action_layout.dtype, rows * self._action_layout.dim, "action"),
            rewards,
            _contiguous(done, np.dtype(np.float32), rows, "done"),
            timeouts,
            self.check_finite,
            self._withholds_new_rows,
        )
        if found is not None:
            self._report_non_finite(found, next_obs if found[1] else obs)
        self._steps_added += rows

    # HER draws only from finished episodes.
    _withholds_new_rows = False

    def _observation_arrays(self, obs: Any, rows: int, name: str) -> list[npt.NDArray[Any]]:
        arrays = []
        for layout in self._layouts:
            part = obs if layout.key is None else obs[layout.key]
            size = rows * (layout.row_bytes // layout.dtype.itemsize)
            arrays.append(
                _contiguous(
                    part, layout.dtype, size, name if layout.key is None else f"{name}[{layout.key!r}]"
                )
            )
        return arrays

    def _report_non_finite(self, found: tuple[int, bool, int, int], obs: Any) -> None:
        column, following, row, element = found
        layout = self._layouts[column]
        part = np.asarray(obs if layout.key is None else obs[layout.key]).ravel()
        width = layout.row_bytes // layout.dtype.itemsize
        where = np.unravel_index(element, layout.shape)
        name = ("next_obs" if following else "obs") + ("" if layout.key is None else f"[{layout.key!r}]")
        feature = ", ".join(str(int(i)) for i in where)
        msg = (
            f"{name} of {self._place(row)} is {part[row * width + element]} at feature [{feature}], but observations must be "
            f"finite: {_FINITE_FIX}"
        )
        raise DataError(msg)

    def _place(self, row: int) -> str:
        return f"environment {row % self.n_envs}" + (
            f", step {row // self.n_envs}" if row >= self.n_envs else ""
        )

    # Sampling ----------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int, env: VecNormalize | None = None, *, replace: bool = True) -> Any:  # type: ignore[override]
        """Draw transitions, uniformly or by priority.

        :param batch_size: number of transitions B; repeats may occur
        :param env: VecNormalize whose present statistics normalise observations and rewards
        :param replace: False draws B different transitions (uniform mode only)
        :return: :class:`WebscaleReplayBufferSamples`, or :class:`WebscaleDictReplayBufferSamples` for a Dict space
        :raises BufferStateError: when nothing is stored, or fewer than B transitions and ``replace`` is False
        """
        self._check_sample(batch_size, replace)
        if self.prioritization is not None:
            rows, weights = self._replay.draw(batch_size, self.beta)
            return self._samples_of_rows(rows, env, weights)
        if not replace:
            return self._samples_of_rows(self._distinct_rows(batch_size), env)
        return self._get_samples(self._uniform_slots(batch_size), env=env)

    def _check_sample(self, batch_size: int, replace: bool) -> None:
        if not self._agreement_checked:
            check_agreement(calling_algorithm(), type(self).__name__, self.n_steps, self.gamma)
            self._agreement_checked = True
        if batch_size < 1:
            msg = f"batch_size is {batch_size}, but must be at least 1"
            raise InvalidInputError(msg)
        stored = self.size() * self.n_envs
        if stored == 0:
            msg = f"cannot sample {batch_size} transitions, since none is stored: add transitions first (learning_starts)"
            raise BufferStateError(msg)
        if not replace and self.prioritization is not None:
            msg = "replace=False is for uniform sampling, but this buffer is prioritized: leave replace=True"
            raise InvalidInputError(msg)
        if not replace and batch_size > stored:
            msg = (
                f"batch_size is {batch_size}, but only {stored} transitions are stored and replace=False asks for different "
                "ones: take a smaller batch, add more first, or leave replace=True"
            )
            raise BufferStateError(msg)

    def _uniform_slots(self, batch_size: int) -> npt.NDArray[np.int64]:
        # The calls and their order are those of SB3's ReplayBuffer.sample.
        saves_memory = self.optimize_memory_usage and not self.handle_timeout_termination
        if saves_memory and self.full and self.buffer_size > 1:
            return (np.random.randint(1, self.buffer_size, size=batch_size) + self.pos) % self.buffer_size  # noqa: NPY002
        return np.random.randint(0, self.size(), size=batch_size)  # noqa: NPY002

    def _distinct_rows(self, batch_size: int) -> npt.NDArray[np.int64]:
        return np.random.choice(self.size() * self.n_envs, size=batch_size, replace=False).astype(np.int64)  # noqa: NPY002

    def _get_samples(self, batch_inds: npt.NDArray[np.int64], env: VecNormalize | None = None) -> Any:  # type: ignore[override]
        envs = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))  # noqa: NPY002
        return self._samples_of_rows(batch_inds * self.n_envs + envs, env)

    def _samples_of_rows(
        self,
        rows: npt.NDArray[np.int64],
        env: VecNormalize | None,
        weights: npt.NDArray[np.float32] | None = None,
    ) -> Any:
        last_rows, returns, discounts = rows, None, None
        if self.n_steps > 1:
            slots, envs = np.divmod(rows, self.n_envs)
            windows = n_step_windows(
                slots, envs,
                rewards=self.rewards, dones=self.dones, timeouts=self.timeouts,
                newest_slot=(self.pos - 1) % self.buffer_size, n_steps=self.n_steps, gamma=self.gamma,
                normalize_reward=lambda rewards: self._normalize_reward(rewards, env),
            )  # fmt: skip
            last_rows = windows.last_slots * self.n_envs + envs
            returns, discounts = windows.returns, windows.discounts
        obs, next_obs, actions, rewards, terminals, ids = self._gather(rows, last_rows)
        if returns is None:
            returns = self._normalize_reward(rewards.reshape(-1, 1), env)
        to_torch = self._to_tensor
        samples = WebscaleReplayBufferSamples if None in obs else WebscaleDictReplayBufferSamples
        batch = samples(
            observations=to_torch(self._normalize_obs(self._unkeyed(obs), env)),
            actions=to_torch(actions),
            next_observations=to_torch(self._normalize_obs(self._unkeyed(next_obs), env)),
            dones=to_torch(terminals.reshape(-1, 1)),
            rewards=to_torch(returns),
            discounts=None if discounts is None else to_torch(discounts),
            indices=to_torch(ids),
            weights=None if weights is None else to_torch(weights.reshape(-1, 1)),
        )
        if batch.weights is not None:
            self._remember(ids, batch.weights)
        return batch

    def _gather(
        self, rows: npt.NDArray[np.int64], last_rows: npt.NDArray[np.int64]
    ) -> tuple[
        Arrays,
        Arrays,
        npt.NDArray[Any],
        npt.NDArray[np.float32],
        npt.NDArray[np.float32],
        npt.NDArray[np.int64],
    ]:
        count = len(rows)
        obs: Arrays = {
            layout.key: np.empty((count, *layout.shape), dtype=layout.dtype) for layout in self._layouts
        }
        next_obs: Arrays = {key: np.empty_like(array) for key, array in obs.items()}
        actions = np.empty((count, self._action_layout.dim), dtype=self._action_layout.dtype)
        rewards, terminals = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.float32)
        ids = np.empty(count, dtype=np.int64)
        self._replay.gather(
            rows, last_rows, list(obs.values()), list(next_obs.values()), actions, rewards, terminals, ids
        )
        return obs, next_obs, actions, rewards, terminals, ids

    def _to_tensor(self, arrays: Any) -> Any:
        # Every array was made for this batch, so sharing its memory with the tensor is safe.
        if isinstance(arrays, dict):
            return {key: self.to_torch(array, copy=False) for key, array in arrays.items()}
        return self.to_torch(arrays, copy=False)

    # Priorities --------------------------------------------------------------------------------------------------

    def _remember(self, ids: npt.NDArray[np.int64], weights: th.Tensor) -> None:
        self.last_batch = SampledBatch(ids, weights)
        self._watch.sampled()

    @property
    def prioritized(self) -> bool:
        """Whether transitions are drawn by priority."""
        return self.prioritization is not None

    def _required_prioritization(self) -> Prioritization:
        if self.prioritization is None:
            msg = f"this {type(self).__name__} samples uniformly and keeps no priorities: build it with prioritized=True"
            raise BufferStateError(msg)
        return self.prioritization

    @property
    def beta(self) -> float:
        """Importance-weight exponent now."""
        return self._required_prioritization().beta(self._steps_added, self._progress)

    def set_progress(self, progress: float) -> None:
        """
        :param progress: fraction of training done, in [0, 1]; moves beta when ``beta_steps`` is None
        """
        self._progress = min(max(progress, 0.0), 1.0)

    def update_priorities(self, ids: Any, td_errors: Any) -> int:
        """Set the priorities of sampled transitions to their TD errors plus ``priority_epsilon``.

        :param ids: int (B,), the ``indices`` of a batch
        :param td_errors: magnitudes, B elements
        :return: how many were set; transitions overwritten since are skipped, and counted in ``statistics()``
        :raises InvalidInputError: when a TD error is NaN, infinite or negative; no priority is changed then
        """
        settings = self._required_prioritization()
        ids = as_ids(ids)
        values = checked_td_errors(td_errors, len(ids))
        updated, stale = self._replay.update_priorities(ids, values + settings.epsilon)
        self._stale_updates += stale
        self._watch.fed()
        return int(updated)

    def priorities(self, ids: Any) -> npt.NDArray[np.float64]:
        """
        :param ids: int (B,)
        :return: float64 (B,), priorities before the exponent; NaN where the transition was overwritten
        """
        self._required_prioritization()
        return self._replay.priorities(as_ids(ids))

    def statistics(self) -> dict[str, float]:
        """:return: fill, bytes, and in prioritized mode beta, largest priority and feedback that came too late"""
        numbers: dict[str, float] = {
            "transitions": self.size() * self.n_envs,
            "capacity": self.buffer_size * self.n_envs,
            "nbytes": self.nbytes,
        }
        if self.prioritization is not None:
            numbers |= {
                "beta": self.beta,
                "max_priority": self._replay.max_priority,
                "stale_updates": self._stale_updates,
            }
        return numbers

    # Saving ------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_native"]
        state["last_batch"] = None
        return {
            "format": FORMAT,
            "attributes": state,
            "native": native_state(self._replay, len(self._layouts), self.n_envs),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.get("format") != FORMAT:
            msg = (
                f"this {type(self).__name__} was saved in format {state.get('format')!r}, but this version reads format {FORMAT}: "
                "load it with the version that wrote it and save it again"
            )
            raise SnapshotFormatError(msg)
        self.__dict__.update(state["attributes"])
        self._agreement_checked = False
        self._native = self._new_native()
        if self.prioritization is not None:
            self._native.prioritize(self.prioritization.alpha, 0)
        restore_native(self._native, state["native"])


_FINITE_FIX = "mend the environment or converter, or pass check_finite=False to store it as it is"


def _contiguous(values: Any, dtype: np.dtype[Any], size: int, name: str) -> npt.NDArray[Any]:
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.size != size:
        msg = f"{name} has shape {array.shape}, that is {array.size} elements, but {size} are needed"
        raise DataError(msg)
    return array.reshape(-1)


def as_ids(ids: Any) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(
        ids.cpu().numpy() if isinstance(ids, th.Tensor) else ids, dtype=np.int64
    ).ravel()
