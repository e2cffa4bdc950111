"""Replay buffer for flat observation spaces."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from sb3_webscale.buffers.indexed_replay import IndexedReplayBuffer
from sb3_webscale.errors import InvalidInputError

__all__ = ["WebscaleReplayBuffer"]


class WebscaleReplayBuffer(IndexedReplayBuffer):
    """Drop-in for SB3's ``ReplayBuffer`` and ``NStepReplayBuffer``; parameters as :class:`IndexedReplayBuffer`."""

    def _check_observation_space(self, space: spaces.Space[Any]) -> None:
        if isinstance(space, spaces.Dict):
            msg = f"observation_space is {space}: use WebscaleDictReplayBuffer for Dict spaces"
            raise InvalidInputError(msg)
