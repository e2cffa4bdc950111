"""Transitions in native memory behind the attributes that SB3's algorithms and callbacks touch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer

from sb3_webscale import _native
from sb3_webscale.buffers.memory_budget import MemoryBudget
from sb3_webscale.buffers.observation_view import ObservationView
from sb3_webscale.buffers.spaces import ActionLayout, ObservationLayout, action_layout, observation_layouts
from sb3_webscale.buffers.spill_directory import SpillDirectory
from sb3_webscale.buffers.state import FORMAT, native_state, restore_native
from sb3_webscale.errors import BufferStateError, DataError, InvalidInputError, SnapshotFormatError

__all__ = ["NativeStorage"]

_FINITE_FIX = "mend the environment or converter, or pass check_finite=False to store it as it is"


class NativeStorage(ReplayBuffer):
    """The storing half of a replay buffer: adding, live views, saving. Each distinct observation or frame is kept once.

    Parameters as :class:`~sb3_webscale.buffers.native_replay.NativeReplayBuffer`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str,
        n_envs: int,
        optimize_memory_usage: bool,
        handle_timeout_termination: bool,
        check_finite: bool,
    ) -> None:
        for name, count in (("buffer_size", buffer_size), ("n_envs", n_envs)):
            if count < 1:
                msg = f"{name} is {count}, but must be at least 1"
                raise InvalidInputError(msg)
        self._check_observation_space(observation_space)
        self._native: _native.Replay | None = None
        self._layouts: list[ObservationLayout] = observation_layouts(observation_space)
        self._action_layout: ActionLayout = action_layout(action_space)
        # Not ReplayBuffer.__init__, which would allocate SB3's arrays.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.check_finite = check_finite
        self._steps_added = 0
        self._warn_if_too_large()
        self._native = self._new_native()

    def _check_observation_space(self, space: spaces.Space[Any]) -> None:
        """Refuse what is another buffer class's to store."""

    def _new_native(self) -> _native.Replay:
        columns = [(layout.key, layout.dtype, layout.shape, layout.frames) for layout in self._layouts]
        form = _native.TransitionFormat(columns, self._action_layout.dtype, self._action_layout.dim)
        try:
            return _native.Replay(self.buffer_size, self.n_envs, form)
        except MemoryError as error:
            msg = (
                f"buffer_size is {self.buffer_size * self.n_envs}, which does not fit into memory: choose a smaller one"
            )
            raise MemoryError(msg) from error

    # Set before this class is constructed, which then does not warn about memory.
    _budget: MemoryBudget | None = None
    _spill_directory: SpillDirectory | None = None

    def _limit_memory(self, replay: _native.Replay) -> None:
        """Keep to the budget from now on; called while the buffer is empty and all but its frames has its memory."""
        if self._budget is None:
            return
        fixed, least = replay.nbytes, replay.minimum_allowance
        allowance = self._budget.bytes - fixed
        if allowance < least:
            msg = (
                f"memory_budget is {self._budget.bytes} bytes, but {self.buffer_size * self.n_envs} transitions take "
                f"{fixed} without their observations, and at least {least} of these stay in memory: give at least "
                f"{fixed + least}, or a smaller buffer_size"
            )
            raise InvalidInputError(msg)
        self._spill_directory = SpillDirectory(self._budget.spill_dir)
        replay.tier(str(self._spill_directory.path), allowance)

    @property
    def memory_budget(self) -> int | None:
        """Bytes that the buffer may hold in memory, or None."""
        return None if self._budget is None else self._budget.bytes

    def _warn_if_too_large(self) -> None:
        if self._budget is not None:
            return
        frame_bytes = sum(layout.row_bytes // layout.frames for layout in self._layouts)
        rows = self.buffer_size * self.n_envs
        expected = rows * (frame_bytes + self._action_layout.dim * self._action_layout.dtype.itemsize + 12)
        available = psutil.virtual_memory().available
        if expected > available:
            fitting = int(rows * available / expected)
            warnings.warn(
                f"a full {type(self).__name__} of {rows} transitions needs at least {expected / 1e9:.2f} GB, "
                f"but {available / 1e9:.2f} GB are available: a buffer_size of {fitting} would fit, or set a "
                "memory_budget",
                stacklevel=2,
            )

    @property
    def _replay(self) -> _native.Replay:
        assert self._native is not None
        return self._native

    @property
    def pos(self) -> int:
        """Slot that the next step is written to."""
        return self._native.position if self._native is not None else 0

    @pos.setter
    def pos(self, value: int) -> None:
        self._refuse_change("pos", self.pos, value)

    @property
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

    @property
    def actions(self) -> npt.NDArray[Any]:
        """Live view, shape (buffer_size, n_envs, action_dim)."""
        return self._replay.actions

    @actions.setter
    def actions(self, value: npt.ArrayLike) -> None:
        self.actions[...] = value

    @property
    def rewards(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._replay.rewards

    @rewards.setter
    def rewards(self, value: npt.ArrayLike) -> None:
        self.rewards[...] = value

    @property
    def dones(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._replay.dones

    @dones.setter
    def dones(self, value: npt.ArrayLike) -> None:
        self.dones[...] = value

    @property
    def timeouts(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._replay.timeouts

    @timeouts.setter
    def timeouts(self, value: npt.ArrayLike) -> None:
        self.timeouts[...] = value

    @property
    def observations(self) -> Any:
        """Read-only view, or one for each key of a Dict space."""
        return self._observation_views(following=False)

    @observations.setter
    def observations(self, value: Any) -> None:
        self._refuse_observations("observations")

    @property
    def next_observations(self) -> Any:
        """Read-only view, or one for each key of a Dict space."""
        return self._observation_views(following=True)

    @next_observations.setter
    def next_observations(self, value: Any) -> None:
        self._refuse_observations("next_observations")

    @staticmethod
    def _refuse_observations(name: str) -> None:
        msg = f"{name} is a view of stored transitions, which share observations, so it cannot be replaced: use add()"
        raise BufferStateError(msg)

    def _observation_views(self, following: bool) -> Any:
        shape = (self.buffer_size, self.n_envs)
        return self._keyed(
            [ObservationView(self._replay, i, layout, following, shape) for i, layout in enumerate(self._layouts)]
        )

    def _keyed(self, parts: list[Any]) -> Any:
        """The single part of a flat space, or a dict of the parts of a Dict space."""
        if self._layouts[0].key is None:
            return parts[0]
        return {layout.key: part for layout, part in zip(self._layouts, parts, strict=True)}

    @property
    def nbytes(self) -> int:
        """Bytes of native memory that the buffer holds now; untouched parts of empty slots are counted too."""
        return self._replay.nbytes

    def reset(self) -> None:
        """Forget every transition. Ids are not reused."""
        self._replay.clear()

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
        if self._replay.try_add_step(
            obs, next_obs, action, reward, done, infos,
            self.handle_timeout_termination, self.check_finite, self._withholds_new_rows,
        ):  # fmt: skip
            self._steps_added += self.n_envs
            return
        timeouts = np.zeros(self.n_envs, dtype=np.float32)
        if self.handle_timeout_termination:
            if len(infos) != self.n_envs:
                msg = (
                    f"infos has {len(infos)} entries, but there are {self.n_envs} environments: give one dict for each"
                )
                raise DataError(msg)
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
            msg = f"{rows} rows were given, but their number must be a multiple of n_envs={self.n_envs}"
            raise DataError(msg)
        timeouts = np.ascontiguousarray(timeouts, dtype=np.float32)
        rewards = _contiguous(reward, np.dtype(np.float32), rows, "reward")
        if self.check_finite and not np.isfinite(rewards).all():
            row = int(np.flatnonzero(~np.isfinite(rewards))[0])
            msg = f"reward of {self._place(row)} is {rewards[row]}, but rewards must be finite: {_FINITE_FIX}"
            raise DataError(msg)
        actions = _contiguous(action, self._action_layout.dtype, rows * self._action_layout.dim, "action")
        if self.check_finite and actions.dtype.kind == "f" and not np.isfinite(actions).all():
            row = int(np.flatnonzero(~np.isfinite(actions))[0]) // self._action_layout.dim
            values = actions.reshape(rows, -1)[row]
            msg = f"action of {self._place(row)} is {values}, but actions must be finite: {_FINITE_FIX}"
            raise DataError(msg)
        found = self._replay.add_steps(
            self._observation_arrays(obs, rows, "obs"),
            self._observation_arrays(next_obs, rows, "next_obs"),
            actions,
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
            array = _contiguous(part, layout.dtype, size, layout.named(name))
            self._check_shape(np.shape(part), rows, layout, name)
            arrays.append(array)
        return arrays

    @staticmethod
    def _check_shape(given: tuple[int, ...], rows: int, layout: ObservationLayout, name: str) -> None:
        # SB3 reshapes Discrete observations, and broadcasting lets a single environment leave its axis out.
        fitting = [(rows, *layout.shape)]
        fitting += [(rows,)] if layout.shape == (1,) else []
        fitting += [layout.shape] if rows == 1 else []
        if given not in fitting:
            msg = f"{layout.named(name)} has shape {given}, but {(rows, *layout.shape)} is needed"
            raise DataError(msg)

    def _report_non_finite(self, found: tuple[int, bool, int, int], obs: Any) -> None:
        column, following, row, element = found
        layout = self._layouts[column]
        part = np.asarray(obs if layout.key is None else obs[layout.key]).ravel()
        width = layout.row_bytes // layout.dtype.itemsize
        where = np.unravel_index(element, layout.shape)
        name = layout.named("next_obs" if following else "obs")
        feature = ", ".join(str(int(i)) for i in where)
        msg = (
            f"{name} of {self._place(row)} is {part[row * width + element]} at feature [{feature}], but observations "
            f"must be finite: {_FINITE_FIX}"
        )
        raise DataError(msg)

    def _place(self, row: int) -> str:
        return f"environment {row % self.n_envs}" + (f", step {row // self.n_envs}" if row >= self.n_envs else "")

    @property
    def _saved_with_priorities(self) -> bool:
        return False

    def __getstate__(self) -> dict[str, Any]:
        attributes = self.__dict__.copy()
        del attributes["_native"]
        attributes.pop("_spill_directory", None)
        native = native_state(self._replay, len(self._layouts), self.n_envs)
        return {"format": FORMAT, "attributes": attributes, "native": native}

    def __setstate__(self, state: dict[str, Any]) -> None:
        found = state.get("format") if isinstance(state, dict) else None
        if found != FORMAT:
            msg = (
                f"this {type(self).__name__} was saved in format {found!r}, but this version reads "
                f"format {FORMAT}: load it with the version that wrote it and save it again"
            )
            raise SnapshotFormatError(msg)
        try:
            self.__dict__.update(state["attributes"])
            native = self._new_native()
            restore_native(native, state["native"], len(self._layouts), self._saved_with_priorities, self._limit_memory)
        except InvalidInputError:  # a ValueError, but about the budget
            raise
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            msg = f"the saved {type(self).__name__} is damaged: {error}. Use another copy of the file"
            raise SnapshotFormatError(msg) from error
        self._native = native


def _contiguous(values: Any, dtype: np.dtype[Any], size: int, name: str) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind == "f" and dtype.kind != "f" and not np.isfinite(array).all():
        msg = f"{name} holds NaN or infinity, which {dtype} cannot store: {_FINITE_FIX.split(',')[0]}"
        raise DataError(msg)
    array = np.ascontiguousarray(array, dtype=dtype)
    if array.size != size:
        msg = f"{name} has shape {array.shape}, that is {array.size} elements, but {size} are needed"
        raise DataError(msg)
    return array.reshape(-1)
