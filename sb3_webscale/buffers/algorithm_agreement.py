"""Refuses an algorithm whose n-step settings the buffer does not share.

SB3 does not hand ``n_steps`` to a buffer class that the user chose; it warns, and trains on 1-step returns. The buffer
cannot see the algorithm either, except as its caller, so it looks for it among the calling frames.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from sb3_webscale.errors import ConfigError

if TYPE_CHECKING:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

__all__ = ["building_algorithm", "check_agreement", "sampling_algorithm"]

_MAX_FRAMES = 12


def building_algorithm() -> OffPolicyAlgorithm | None:
    """:return: the off-policy algorithm that is building its replay buffer by calling, directly or not, or None"""
    return _find_caller(lambda algorithm, function: function == "_setup_model")


def sampling_algorithm(buffer: object) -> OffPolicyAlgorithm | None:
    """
    :param buffer: the buffer that is being sampled
    :return: the algorithm that trains on it by calling, directly or not, or None
    """
    return _find_caller(lambda algorithm, function: algorithm.replay_buffer is buffer)


def _find_caller(wanted: Callable[[OffPolicyAlgorithm, str], bool]) -> OffPolicyAlgorithm | None:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    frame = sys._getframe(2)
    for _ in range(_MAX_FRAMES):
        owner = frame.f_locals.get("self")
        if isinstance(owner, OffPolicyAlgorithm) and wanted(owner, frame.f_code.co_name):
            return owner
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def check_agreement(algorithm: OffPolicyAlgorithm | None, buffer_name: str, n_steps: int, gamma: float) -> None:
    """
    :param algorithm: the algorithm that uses the buffer, or None when it is not one of SB3's
    :param buffer_name: class name of the buffer
    :param n_steps: the buffer's window length
    :param gamma: the buffer's discount factor
    :raises ConfigError: when the algorithm asks for other n-step returns than the buffer gives
    """
    if algorithm is None:
        return
    name = type(algorithm).__name__
    wanted = getattr(algorithm, "n_steps", 1)
    if wanted > 1 and wanted != n_steps:
        msg = (
            f"{name} has n_steps={wanted}, but its {buffer_name} has n_steps={n_steps}: SB3 does not pass n_steps to a "
            f"custom buffer class. Write replay_buffer_kwargs=dict(n_steps={wanted}, gamma={algorithm.gamma})"
        )
        raise ConfigError(msg)
    if n_steps > 1 and algorithm.gamma != gamma:
        msg = (
            f"{buffer_name} discounts n-step returns with gamma={gamma}, but {name} has gamma={algorithm.gamma}: "
            f"write replay_buffer_kwargs=dict(n_steps={n_steps}, gamma={algorithm.gamma})"
        )
        raise ConfigError(msg)
