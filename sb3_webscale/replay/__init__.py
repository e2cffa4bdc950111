"""Schedules and the mixing of history with online experience."""

from __future__ import annotations

from sb3_webscale.replay.mixed_replay import MixedReplayBuffer
from sb3_webscale.replay.online_ratio import (
    ConstantOnlineRatio,
    LinearOnlineRatio,
    OnlineRatio,
    parse_online_ratio,
)

__all__ = [
    "ConstantOnlineRatio",
    "LinearOnlineRatio",
    "MixedReplayBuffer",
    "OnlineRatio",
    "parse_online_ratio",
]
