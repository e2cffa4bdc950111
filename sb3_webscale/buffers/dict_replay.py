"""Replay buffer for Dict observation spaces."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer

from sb3_webscale.buffers.indexed_replay import IndexedReplayBuffer
from sb3_webscale.errors import InvalidInputError

__all__ = ["WebscaleDictReplayBuffer"]


class WebscaleDictReplayBuffer(IndexedReplayBuffer, DictReplayBuffer):
    """Drop-in for SB3's ``DictReplayBuffer``; parameters as :class:`IndexedReplayBuffer`. N-step returns and
    ``optimize_memory_usage``, which SB3's class lacks, work too."""

    def _check_observation_space(self, space: spaces.Space[Any]) -> None:
        if not isinstance(space, spaces.Dict):
            msg = f"observation_space is {space}: use WebscaleReplayBuffer for spaces other than Dict"
            raise InvalidInputError(msg)
