"""The critic losses of each algorithm with an explicit weight for every transition, written from the papers' formulas.

They serve as the reference for gradients that were weighted by hooks: same networks, same batch, same noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

Gradients = list[th.Tensor]


class CriticLoss(NamedTuple):
    """
    :param per_transition: (B,), so that the loss is the mean of weight times this
    :param td_errors: (B,), what should come back as priorities
    """

    per_transition: th.Tensor
    td_errors: th.Tensor


def _bellman_target(model: BaseAlgorithm, batch: Any, next_values: th.Tensor) -> th.Tensor:
    discounts = model.gamma if batch.discounts is None else batch.discounts  # type: ignore[attr-defined]
    return batch.rewards + (1 - batch.dones) * discounts * next_values


def _dqn(model: Any, policy: Any, batch: Any) -> CriticLoss:
    with th.no_grad():
        target = _bellman_target(model, batch, policy.q_net_target(batch.next_observations).amax(1, keepdim=True))
    chosen = policy.q_net(batch.observations).gather(1, batch.actions.long())
    error = (chosen - target).squeeze(1)
    huber = th.where(error.abs() < 1, 0.5 * error**2, error.abs() - 0.5)
    return CriticLoss(huber, error.abs().clamp(max=1))


def _pairwise_quantile_huber(current: th.Tensor, target: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """
    :param current: (..., K) quantiles
    :param target: (..., T) quantiles
    :return: loss (..., K, T) and the magnitude (..., K) of its slope in each quantile, averaged over targets
    """
    n_quantiles = current.shape[-1]
    fractions = ((th.arange(n_quantiles, dtype=th.float32) + 0.5) / n_quantiles).unsqueeze(-1)
    error = target.unsqueeze(-2) - current.unsqueeze(-1)
    side = (fractions - (error.detach() < 0).to(th.float32)).abs()
    huber = th.where(error.abs() <= 1, 0.5 * error**2, error.abs() - 0.5)
    slope = (side * error.detach().clamp(-1, 1)).mean(-1).abs()
    return side * huber, slope


def _qrdqn(model: Any, policy: Any, batch: Any) -> CriticLoss:
    rows = th.arange(len(batch.actions))
    with th.no_grad():
        candidates = policy.quantile_net_target(batch.next_observations)  # (B, K, actions)
        best = candidates.mean(1).argmax(1)
        target = _bellman_target(model, batch, candidates[rows, :, best])
    current = policy.quantile_net(batch.observations)[rows, :, batch.actions.long().squeeze(1)]
    loss, slope = _pairwise_quantile_huber(current, target)
    return CriticLoss(loss.sum(1).mean(1), slope.mean(1))


def _entropy_coefficient(model: Any) -> th.Tensor:
    return model.log_ent_coef.detach().exp() if model.log_ent_coef is not None else model.ent_coef_tensor


def _squared_errors(critics: Any, target: th.Tensor, factor: float) -> CriticLoss:
    errors = th.cat(list(critics), dim=1) - target
    return CriticLoss(factor * (errors**2).sum(1), errors.abs().mean(1).detach())


def _sac(model: Any, policy: Any, batch: Any) -> CriticLoss:
    policy.actor.action_log_prob(batch.observations)  # uses up the noise of the actor's own pass, which SB3 makes first
    with th.no_grad():
        actions, log_prob = policy.actor.action_log_prob(batch.next_observations)
        values = th.cat(policy.critic_target(batch.next_observations, actions), 1).amin(1, keepdim=True)
        target = _bellman_target(model, batch, values - _entropy_coefficient(model) * log_prob.reshape(-1, 1))
    return _squared_errors(policy.critic(batch.observations, batch.actions), target, 0.5)


def _td3(model: Any, policy: Any, batch: Any) -> CriticLoss:
    with th.no_grad():
        noise = th.empty_like(batch.actions).normal_(0, model.target_policy_noise)
        noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
        actions = (policy.actor_target(batch.next_observations) + noise).clamp(-1, 1)
        values = th.cat(policy.critic_target(batch.next_observations, actions), 1).amin(1, keepdim=True)
        target = _bellman_target(model, batch, values)
    return _squared_errors(policy.critic(batch.observations, batch.actions), target, 1.0)


def _tqc(model: Any, policy: Any, batch: Any) -> CriticLoss:
    policy.actor.action_log_prob(batch.observations)
    kept = policy.critic.quantiles_total - model.top_quantiles_to_drop_per_net * policy.critic.n_critics
    with th.no_grad():
        actions, log_prob = policy.actor.action_log_prob(batch.next_observations)
        quantiles = policy.critic_target(batch.next_observations, actions).flatten(1).sort(1).values[:, :kept]
        quantiles = quantiles - _entropy_coefficient(model) * log_prob.reshape(-1, 1)
        target = _bellman_target(model, batch, quantiles).unsqueeze(1)
    loss, slope = _pairwise_quantile_huber(policy.critic(batch.observations, batch.actions), target)
    return CriticLoss(loss.mean((1, 2, 3)), slope.mean((1, 2)))


def _crossq(model: Any, policy: Any, batch: Any) -> CriticLoss:
    policy.actor.set_bn_training_mode(False)
    with th.no_grad():
        actions, log_prob = policy.actor.action_log_prob(batch.next_observations)
    policy.critic.set_bn_training_mode(True)
    both = policy.critic(th.cat([batch.observations, batch.next_observations]), th.cat([batch.actions, actions]))
    size = len(batch.actions)
    values = th.cat([critic[size:] for critic in both], 1).detach().amin(1, keepdim=True)
    target = _bellman_target(model, batch, values - _entropy_coefficient(model) * log_prob.reshape(-1, 1))
    return _squared_errors([critic[:size] for critic in both], target, 0.5)


_LOSSES: dict[str, Callable[[Any, Any, Any], CriticLoss]] = {
    "DQN": _dqn,
    "QRDQN": _qrdqn,
    "SAC": _sac,
    "TD3": _td3,
    "DDPG": _td3,
    "TQC": _tqc,
    "CrossQ": _crossq,
}


def critic_optimizer(policy: Any) -> th.optim.Optimizer:
    found: th.optim.Optimizer = policy.critic.optimizer if hasattr(policy, "critic") else policy.optimizer
    return found


def parameters_of(optimizer: th.optim.Optimizer) -> list[th.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def critic_loss(name: str, model: BaseAlgorithm, policy: Any, batch: Any) -> CriticLoss:
    """
    :param name: algorithm
    :param model: gives gamma and the algorithm's other numbers
    :param policy: networks as they were before the update
    :param batch: what the buffer returned
    """
    return _LOSSES[name](model, policy, batch)


def weighted_gradients(loss: CriticLoss, weights: th.Tensor, policy: Any) -> Gradients:
    """Gradients of the weighted mean loss in every parameter of the critic's optimiser."""
    total = (weights.reshape(-1) * loss.per_transition).mean()
    return gradients(total, parameters_of(critic_optimizer(policy)))


def gradients(loss: th.Tensor, parameters: list[th.Tensor]) -> Gradients:
    found = th.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    return [th.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]


def actor_gradients(name: str, model: Any, policy: Any, batch: Any, actions_and_log_prob: Any) -> Gradients:
    """Gradients of the unweighted actor loss.

    :param policy: networks as they were when the actor's optimiser stepped
    :param actions_and_log_prob: makes the actor's pass, with the noise that the update used
    """
    if name in ("TD3", "DDPG"):
        loss = -policy.critic.q1_forward(batch.observations, policy.actor(batch.observations)).mean()
    else:
        actions, log_prob = actions_and_log_prob()
        values = policy.critic(batch.observations, actions)
        value = values.mean((1, 2)) if name == "TQC" else th.cat(values, 1).amin(1)
        loss = (_entropy_coefficient(model) * log_prob - value).mean()
    return gradients(loss, parameters_of(policy.actor.optimizer))
