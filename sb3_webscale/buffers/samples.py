"""What ``sample`` returns: SB3's fields in SB3's order, then the ids and weights of the rows."""

from __future__ import annotations

from typing import NamedTuple

import torch as th
from stable_baselines3.common.type_aliases import TensorDict

__all__ = ["WebscaleDictReplayBufferSamples", "WebscaleReplayBufferSamples"]


class WebscaleReplayBufferSamples(NamedTuple):
    """A batch of B transitions.

    :param observations: (B, *obs_shape), dtype of the space, or float32 when VecNormalize normalised them
    :param actions: (B, action_dim)
    :param next_observations: like ``observations``
    :param dones: float32 (B, 1); 1 where the target must not be bootstrapped
    :param rewards: float32 (B, 1); n-step returns when ``n_steps`` > 1
    :param discounts: float32 (B, 1), gamma to the power of the steps really used, or None for one step
    :param indices: int64 (B,), ids for ``update_priorities``
    :param weights: float32 (B, 1), importance weights, or None in uniform mode
    """

    observations: th.Tensor
    actions: th.Tensor
    next_observations: th.Tensor
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None = None
    indices: th.Tensor | None = None
    weights: th.Tensor | None = None


class WebscaleDictReplayBufferSamples(NamedTuple):
    """As :class:`WebscaleReplayBufferSamples`, with one tensor for each key of a Dict observation space."""

    observations: TensorDict
    actions: th.Tensor
    next_observations: TensorDict
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None = None
    indices: th.Tensor | None = None
    weights: th.Tensor | None = None
