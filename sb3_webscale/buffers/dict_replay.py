"""Replay buffer for Dict observation spaces."""

from __future__ import annotations

from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer

from sb3_webscale.buffers.native_replay import NativeReplayBuffer
from sb3_webscale.errors import InvalidInputError

__all__ = ["WebscaleDictReplayBuffer"]


class WebscaleDictReplayBuffer(NativeReplayBuffer, DictReplayBuffer):
    """Drop-in for SB3's ``DictReplayBuffer``; parameters as :class:`NativeReplayBuffer`. N-step returns and
    ``optimize_memory_usage``, which SB3's class lacks, work too."""

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        **options: Any,
    ) -> None:
        if not isinstance(observation_space, spaces.Dict):
            msg = f"observation_space is {observation_space}: use WebscaleReplayBuffer for spaces other than Dict"
            raise InvalidInputError(msg)
        super().__init__(
            buffer_size, observation_space, action_space, device, n_envs,
            optimize_memory_usage, handle_timeout_termination, **options,
        )  # fmt: skip
