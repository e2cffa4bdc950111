"""Replay buffer for flat observation spaces."""

from __future__ import annotations

from typing import Any

import torch as th
from gymnasium import spaces

from sb3_webscale.buffers.native_replay import NativeReplayBuffer
from sb3_webscale.errors import InvalidInputError

__all__ = ["WebscaleReplayBuffer"]


class WebscaleReplayBuffer(NativeReplayBuffer):
    """Drop-in for SB3's ``ReplayBuffer`` and ``NStepReplayBuffer``; parameters as :class:`NativeReplayBuffer`."""

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
        if isinstance(observation_space, spaces.Dict):
            msg = f"observation_space is {observation_space}: use WebscaleDictReplayBuffer for Dict spaces"
            raise InvalidInputError(msg)
        super().__init__(
            buffer_size, observation_space, action_space, device, n_envs,
            optimize_memory_usage, handle_timeout_termination, **options,
        )  # fmt: skip
