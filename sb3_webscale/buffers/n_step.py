"""N-step returns over the ring, in the arithmetic of SB3's ``NStepReplayBuffer``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NStepWindows", "n_step_windows"]


@dataclass(frozen=True)
class NStepWindows:
    """The windows that start at B sampled transitions.

    :param last_slots: int64 (B,), slot of the last transition of each window
    :param returns: float32 (B, 1), discounted sum of the window's rewards
    :param discounts: float32 (B, 1), gamma to the power of the window's length
    """

    last_slots: npt.NDArray[np.int64]
    returns: npt.NDArray[np.float32]
    discounts: npt.NDArray[np.float32]


def n_step_windows(
    slots: npt.NDArray[np.int64],
    envs: npt.NDArray[np.int64],
    *,
    rewards: npt.NDArray[np.float32],
    dones: npt.NDArray[np.float32],
    timeouts: npt.NDArray[np.float32],
    newest_slot: int,
    n_steps: int,
    gamma: float,
    normalize_reward: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]],
) -> NStepWindows:
    """Follows each transition for up to ``n_steps``, stopping at the end of its episode or at the newest transition.

    The operations and their order are SB3's (``NStepReplayBuffer._get_samples``), so the float32 results are its bits.

    :param slots: int64 (B,), first slot of each window
    :param envs: int64 (B,)
    :param rewards: float32 (buffer_size, n_envs); ``dones`` and ``timeouts`` alike
    :param newest_slot: slot written last; what follows it in the ring is older
    :param n_steps: length of a full window
    :param gamma: discount factor
    :param normalize_reward: maps rewards (B, n_steps) to what the algorithm trains on
    :return: the windows
    """
    steps = np.arange(n_steps).reshape(1, -1)
    indices = (slots[:, None] + steps) % len(rewards)
    columns = envs[:, None]
    ended = (dones[indices, columns] != 0) | (timeouts[indices, columns] != 0) | (indices == newest_slot)
    last = np.where(ended.any(axis=1), ended.argmax(axis=1), n_steps - 1)
    mask = steps <= last[:, None]
    discounted: Any = normalize_reward(rewards[indices, columns]) * (gamma ** steps.astype(np.float32)) * mask
    return NStepWindows(
        last_slots=(slots + last) % len(rewards),
        returns=discounted.sum(axis=1, keepdims=True),
        discounts=gamma ** mask.sum(axis=1, keepdims=True).astype(np.float32),
    )
