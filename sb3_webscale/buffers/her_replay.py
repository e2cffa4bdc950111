"""Hindsight experience replay on the native core."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from sb3_webscale.buffers.dict_replay import WebscaleDictReplayBuffer
from sb3_webscale.buffers.frame_stacks import FrameStacks
from sb3_webscale.buffers.memory_budget import parse_memory_budget
from sb3_webscale.buffers.native_replay import NativeReplayBuffer
from sb3_webscale.buffers.prioritization import Prioritization
from sb3_webscale.buffers.random_seed import native_seed
from sb3_webscale.buffers.samples import WebscaleDictReplayBufferSamples
from sb3_webscale.errors import InvalidInputError
from sb3_webscale.retrieval.index_config import parse_index_config

__all__ = ["WebscaleHerReplayBuffer"]


class WebscaleHerReplayBuffer(HerReplayBuffer, WebscaleDictReplayBuffer):
    """Drop-in for SB3's ``HerReplayBuffer`` (Andrychowicz et al., "Hindsight Experience Replay", 2017).

    Goals are chosen and rewards recomputed by SB3's own code; storage and prioritized drawing are native. Prioritized
    drawing covers finished episodes only, as uniform drawing does: the open episode is not drawn, and an episode is
    withdrawn whole when its first transition is overwritten.

    :param env: the training environment, whose ``compute_reward`` gives the rewards of relabelled transitions
    :param n_sampled_goal: relabelled transitions for each real one
    :param goal_selection_strategy: ``future``, ``final`` or ``episode``
    :param copy_info_dict: keep infos and pass them to ``compute_reward``
    :raises InvalidInputError: when ``n_steps`` is not 1, since a relabelled window would mix goals, when
        ``prefetch_size`` is not 0, or when an ``index`` is asked for

    Other parameters as :class:`~sb3_webscale.buffers.native_replay.NativeReplayBuffer`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        env: VecEnv,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: GoalSelectionStrategy | str = "future",
        copy_info_dict: bool = False,
        *,
        n_steps: int = 1,
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
        index: Any = None,
    ) -> None:
        self._check_index(parse_index_config(index), {})
        if n_steps != 1:
            msg = f"n_steps is {n_steps}, but HER relabels single transitions: leave n_steps=1"
            raise InvalidInputError(msg)
        self._prefetch_queue(prefetch_size)
        settings = Prioritization(
            alpha, beta_start, beta_end, beta_steps, priority_epsilon,
            temperature, warmup_fraction, alpha_ramp_fraction, td_clip, new_priority,
        )  # fmt: skip
        self._frame_stack = frame_stack
        self._budget = parse_memory_budget(memory_budget, spill_dir)
        # SB3's constructor calls the native one with SB3's parameters only; ours are set afterwards.
        super().__init__(
            buffer_size, observation_space, action_space, env, device, n_envs, optimize_memory_usage,
            handle_timeout_termination, n_sampled_goal, goal_selection_strategy, copy_info_dict,
        )  # fmt: skip
        self.check_finite = check_finite
        self._ids_drawn: list[npt.NDArray[np.int64]] = []
        self._shuffler = np.random.Generator(np.random.Philox(native_seed(seed, "hindsight split")))
        if prioritized:
            self._prioritize(settings, seed)
        self._limit_memory(self._replay)

    _can_prefetch = False
    _instead_of_index = "relabelling changes goals after the index has seen them; use WebscaleDictReplayBuffer"
    _withholds_new_rows = True
    _options_follow = True

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        position, starts, lengths = self.pos, self.ep_start[self.pos].copy(), self.ep_length[self.pos].copy()
        overwritten = [self._rest_of_episode(position, env) for env in range(self.n_envs)]
        try:
            super().add(obs, next_obs, action, reward, done, infos)
        except Exception:
            # SB3's code withdraws the overwritten episodes before it stores; nothing was stored, so they stay.
            self.ep_start[position] = starts
            for env, slots in enumerate(overwritten):
                self.ep_length[slots, env] = lengths[env]
            raise
        if self.prioritization is not None:
            for env, slots in enumerate(overwritten):
                self._replay.withdraw(slots[1:] * self.n_envs + env)  # the first is the new row, withheld by now

    def _rest_of_episode(self, slot: int, env: int) -> npt.NDArray[np.int64]:
        """Slots of a finished episode from ``slot`` on; none when the transition there belongs to none."""
        length = int(self.ep_length[slot, env])
        end = int(self.ep_start[slot, env]) + length if length > 0 else slot
        return np.arange(slot, end) % self.buffer_size

    def _compute_episode_length(self, env_idx: int) -> None:
        start = int(self._current_ep_start[env_idx])
        super()._compute_episode_length(env_idx)
        if self.prioritization is not None:
            slots = np.arange(start, start + self.ep_length[start, env_idx]) % self.buffer_size
            self._replay.admit(slots * self.n_envs + env_idx)

    def sample(self, batch_size: int, env: VecNormalize | None = None, *, replace: bool = True) -> Any:
        """As :meth:`NativeReplayBuffer.sample`; relabelled transitions come after the real ones.

        :raises RuntimeError: when no episode has ended yet, as SB3's buffer does
        """
        if not replace:
            msg = "replace=False is not available with HER, whose relabelled transitions repeat rows by design"
            raise InvalidInputError(msg)
        self._ids_drawn = []
        if self.prioritization is None or not (self.ep_length > 0).any():
            samples = super().sample(batch_size, env)
            ids = np.concatenate(self._ids_drawn)
            self._sample_ages.note(ids, self._replay.steps)
            return WebscaleDictReplayBufferSamples(*samples[:6], indices=self.to_torch(ids))
        self._check_sample(batch_size, replace)
        rows, weights = self._replay.draw(batch_size, self.beta)
        # Stratified draws come in the order of the ring; which of them are relabelled must not depend on it.
        order = self._shuffler.permutation(batch_size)
        rows, weights = rows[order], weights[order]
        slots, envs = np.divmod(rows, self.n_envs)
        relabelled = int(self.her_ratio * batch_size)
        real = self._get_real_samples(slots[relabelled:], envs[relabelled:], env)
        virtual = self._get_virtual_samples(slots[:relabelled], envs[:relabelled], env)
        joined_weights = self.to_torch(np.concatenate([weights[relabelled:], weights[:relabelled]]))
        ids = np.concatenate(self._ids_drawn)
        self._sample_ages.note(ids, self._replay.steps)
        batch = WebscaleDictReplayBufferSamples(
            observations={key: th.cat((part, virtual.observations[key])) for key, part in real.observations.items()},
            actions=th.cat((real.actions, virtual.actions)),
            next_observations={
                key: th.cat((part, virtual.next_observations[key])) for key, part in real.next_observations.items()
            },
            dones=th.cat((real.dones, virtual.dones)),
            rewards=th.cat((real.rewards, virtual.rewards)),
            indices=self.to_torch(ids),
            weights=joined_weights,
        )
        self._remember(batch)
        return batch

    def _get_real_samples(self, batch_indices: Any, env_indices: Any, env: VecNormalize | None = None) -> Any:
        self._note_ids(batch_indices, env_indices)
        return super()._get_real_samples(batch_indices, env_indices, env)

    def _get_virtual_samples(self, batch_indices: Any, env_indices: Any, env: VecNormalize | None = None) -> Any:
        self._note_ids(batch_indices, env_indices)
        return super()._get_virtual_samples(batch_indices, env_indices, env)

    def _note_ids(self, slots: npt.NDArray[np.int64], envs: npt.NDArray[np.int64]) -> None:
        self._ids_drawn.append(self._replay.ids_of_rows(np.ascontiguousarray(slots * self.n_envs + envs)))

    def reset(self) -> None:
        super().reset()
        self.ep_start[:] = 0
        self.ep_length[:] = 0
        self._current_ep_start[:] = 0

    def __getstate__(self) -> dict[str, Any]:
        state = NativeReplayBuffer.__getstate__(self)
        del state["attributes"]["env"]  # environments cannot be pickled in general; SB3 calls set_env() after loading
        state["attributes"]["_ids_drawn"] = []
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        NativeReplayBuffer.__setstate__(self, state)
        self.env = None
