"""From action values to the probability of each action, as off-policy evaluation needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from sb3_webscale.errors import ConfigError, InvalidInputError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["action_probabilities", "action_values"]

PolicyKind = Literal["greedy", "epsilon_greedy", "softmax"]
_ROWS_AT_ONCE = 8192


def action_values(model: BaseAlgorithm, observations: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Value of every action, for DQN and for QR-DQN (the mean over its quantiles).

    :param model: DQN or QR-DQN
    :param observations: (n, *observation_space.shape), not normalised
    :return: float64 (n, n_actions)
    :raises ConfigError: when the algorithm has no values of discrete actions
    """
    network: Any = getattr(model, "q_net", None) or getattr(model, "quantile_net", None)
    if network is None or not isinstance(model.action_space, spaces.Discrete):
        msg = (
            f"algo = {type(model).__name__} with {model.action_space}: off-policy evaluation needs a value for each "
            "action; use dqn or qrdqn, or remove the section off_policy_evaluation"
        )
        raise ConfigError(msg)
    normalize = model.get_vec_normalize_env()
    chunks = []
    for start in range(0, len(observations), _ROWS_AT_ONCE):
        rows = observations[start : start + _ROWS_AT_ONCE]
        seen: Any = normalize.normalize_obs(rows) if normalize is not None else rows
        tensor, _ = model.policy.obs_to_tensor(seen)
        with torch.no_grad():
            values = network(tensor)
        chunks.append((values.mean(dim=1) if values.ndim == 3 else values).double().cpu().numpy())
    return np.concatenate(chunks) if chunks else np.empty((0, int(model.action_space.n)))


def action_probabilities(
    values: npt.NDArray[np.float64], policy: PolicyKind = "greedy", *, epsilon: float = 0.1, temperature: float = 1.0
) -> npt.NDArray[np.float64]:
    """Probability of every action.

    :param values: float64 (n, n_actions), finite
    :param policy: ``greedy`` (the first of equal best actions, as ``argmax`` takes it), ``epsilon_greedy``
        or ``softmax``
    :param epsilon: probability of a uniformly random action, in [0, 1]
    :param temperature: divisor of the values before the softmax, > 0
    :return: float64 (n, n_actions), each row summing to 1
    :raises InvalidInputError: when a value is not finite or a parameter is outside its range
    """
    if not np.isfinite(values).all():
        msg = "values holds NaN or infinite action values, so the policy is undefined; the training has diverged"
        raise InvalidInputError(msg)
    if policy == "softmax":
        if not temperature > 0:
            msg = f"temperature = {temperature!r} must be > 0; use policy: greedy for the limit 0"
            raise InvalidInputError(msg)
        scaled = (values - values.max(axis=1, keepdims=True)) / temperature
        weights = np.exp(scaled)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))
    share = {"greedy": 0.0, "epsilon_greedy": epsilon}[policy]
    if not 0 <= share <= 1:
        msg = f"epsilon = {share!r} must be in [0, 1]; give a probability"
        raise InvalidInputError(msg)
    probabilities = np.full(values.shape, share / values.shape[1])
    probabilities[np.arange(len(values)), values.argmax(axis=1)] += 1.0 - share
    return probabilities
