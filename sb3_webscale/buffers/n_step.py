"""N-step returns in the arithmetic of SB3's ``NStepReplayBuffer``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["n_step_returns"]


def n_step_returns(
    rewards: npt.NDArray[np.float32], lengths: npt.NDArray[np.int64], gamma: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Discounted sums over windows of transitions.

    The operations and their order are SB3's (``NStepReplayBuffer._get_samples``), so the float32 results are its bits.

    :param rewards: float32 (B, n_steps), as the algorithm trains on them; those past the end of a window do not count
    :param lengths: int64 (B,), transitions in each window, in [1, n_steps]
    :param gamma: discount factor
    :return: returns and gamma to the power of the lengths, float32 (B, 1) each
    """
    steps = np.arange(rewards.shape[1]).reshape(1, -1)
    mask = steps < lengths[:, None]
    discounted: Any = rewards * (gamma ** steps.astype(np.float32)) * mask
    return discounted.sum(axis=1, keepdims=True), gamma ** lengths[:, None].astype(np.float32)
