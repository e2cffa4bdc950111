"""Drop-in Stable-Baselines3 replay buffers on the native core."""

from __future__ import annotations

from sb3_webscale.buffers.dict_replay import WebscaleDictReplayBuffer
from sb3_webscale.buffers.flat_replay import WebscaleReplayBuffer
from sb3_webscale.buffers.her_replay import WebscaleHerReplayBuffer
from sb3_webscale.buffers.indexed_replay import IndexedReplayBuffer
from sb3_webscale.buffers.native_replay import NativeReplayBuffer
from sb3_webscale.buffers.priority_feedback import PriorityFeedback
from sb3_webscale.buffers.samples import WebscaleDictReplayBufferSamples, WebscaleReplayBufferSamples
from sb3_webscale.buffers.sharded_replay import ShardedReplayBuffer

__all__ = [
    "IndexedReplayBuffer",
    "NativeReplayBuffer",
    "PriorityFeedback",
    "ShardedReplayBuffer",
    "WebscaleDictReplayBuffer",
    "WebscaleDictReplayBufferSamples",
    "WebscaleHerReplayBuffer",
    "WebscaleReplayBuffer",
    "WebscaleReplayBufferSamples",
]
