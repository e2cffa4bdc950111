"""Replay, data and reproducibility layer for Gymnasium and Stable-Baselines3."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sb3_webscale.buffers import (
        PriorityFeedback,
        ShardedReplayBuffer,
        WebscaleDictReplayBuffer,
        WebscaleHerReplayBuffer,
        WebscaleReplayBuffer,
    )
    from sb3_webscale.replay import MixedReplayBuffer

__version__ = "0.1.0"

__all__ = [
    "MixedReplayBuffer",
    "PriorityFeedback",
    "ShardedReplayBuffer",
    "WebscaleDictReplayBuffer",
    "WebscaleHerReplayBuffer",
    "WebscaleReplayBuffer",
    "__version__",
]

# Resolved on first use, so that `sb3_webscale.data` and the command line start without importing torch.
_EXPORTS = {
    "MixedReplayBuffer": "sb3_webscale.replay",
    "PriorityFeedback": "sb3_webscale.buffers",
    "ShardedReplayBuffer": "sb3_webscale.buffers",
    "WebscaleDictReplayBuffer": "sb3_webscale.buffers",
    "WebscaleHerReplayBuffer": "sb3_webscale.buffers",
    "WebscaleReplayBuffer": "sb3_webscale.buffers",
}


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
