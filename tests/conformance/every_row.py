"""Every stored transition of a buffer at once, so that tests sweep all slots instead of drawing some."""

from __future__ import annotations

from typing import Any

import numpy as np


def every_row(buffer: Any) -> Any:
    """Each stored transition exactly once, in random order."""
    samples = buffer.sample(buffer.size() * buffer.n_envs, replace=False)
    assert len(np.unique(samples.indices.numpy())) == buffer.size() * buffer.n_envs
    return samples


def newest_codes(filled: int, slots: int, n_envs: int, length: int) -> list[tuple[int, int, int]]:
    """(env, episode, step) of what a ring must still hold after ``filled`` steps of episodes of one length."""
    kept = range(max(filled - slots, 0), filled)
    return sorted((env, step // length, step % length) for env in range(n_envs) for step in kept)
