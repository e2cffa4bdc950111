"""One call of ``train()`` with everything that is needed to compute it again by other means."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from sb3_webscale import PriorityFeedback, WebscaleReplayBuffer

from .random_steps import RandomSteps
from .tiny_models import tiny_model
from .weighted_losses import critic_optimizer, parameters_of

BATCH_SIZE = 32
NOISE_SEED = 11


class LinearFeatures(BaseFeaturesExtractor):
    """A learned extractor, so that sharing it between actor and critic makes a difference."""

    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space, features_dim=6)
        self.linear = th.nn.Linear(int(np.prod(observation_space.shape)), 6)

    def forward(self, observations: th.Tensor) -> th.Tensor:
        features: th.Tensor = self.linear(observations.to(self.linear.weight.dtype).flatten(1))
        return features


def prioritized_model(name: str, *, dtype: th.dtype = th.float32, n_steps: int = 1, **options: Any) -> BaseAlgorithm:
    """A model whose buffer holds random transitions of unequal priority, and whose update clips no gradient."""
    if name in ("TD3", "CrossQ"):
        options["policy_delay"] = 1
    if name in ("DQN", "QRDQN"):
        options["max_grad_norm"] = 1e12
    policy_kwargs = {"features_extractor_class": LinearFeatures, **options.pop("policy_kwargs", {})}
    model: Any = tiny_model(
        name,
        replay_buffer_class=WebscaleReplayBuffer,
        replay_buffer_kwargs={"prioritized": True, "beta_start": 0.8, "seed": 1, "n_steps": n_steps},
        buffer_size=500,
        policy_kwargs=policy_kwargs,
        **options,
    )
    buffer = model.replay_buffer
    steps = RandomSteps(model.observation_space, model.action_space, 1, seed=2, end_probability=0.05)
    steps.fill(400, buffer)
    buffer.rewards[:] *= 2  # so that some errors exceed the Huber loss's bound and some do not
    ids = np.arange(400)
    buffer.update_priorities(ids, np.random.default_rng(3).exponential(size=400))
    model.policy.to(dtype)
    model._setup_learn(1000)
    return model


@dataclass
class RecordedUpdate:
    """
    :param policy_before: copy of the networks before the update
    :param entropy_coefficient: logarithm before the update, or None
    :param batch: what the buffer returned
    :param gradients: of each optimiser when it stepped
    :param networks_at_actor_step: state of the policy when the actor's optimiser stepped
    """

    policy_before: Any
    entropy_coefficient: th.Tensor | None
    batch: Any = None
    gradients: dict[str, list[th.Tensor]] = field(default_factory=dict)
    networks_at_actor_step: dict[str, th.Tensor] = field(default_factory=dict)


def recorded_update(model: Any, *, feedback: bool) -> RecordedUpdate:
    """Runs one gradient step, with or without ``PriorityFeedback``."""
    log_ent_coef = getattr(model, "log_ent_coef", None)
    record = RecordedUpdate(
        policy_before=copy.deepcopy(model.policy),
        entropy_coefficient=None if log_ent_coef is None else log_ent_coef.detach().clone(),
    )
    optimizers = {"critic": critic_optimizer(model.policy)}
    if hasattr(model.policy, "actor"):
        optimizers["actor"] = model.policy.actor.optimizer
    if getattr(model, "ent_coef_optimizer", None) is not None:
        optimizers["entropy"] = model.ent_coef_optimizer

    def recorder(name: str) -> Any:
        def before_step(optimizer: th.optim.Optimizer, args: Any, kwargs: Any) -> None:
            record.gradients[name] = [
                th.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters_of(optimizer)
            ]
            if name == "actor":
                record.networks_at_actor_step = {k: v.clone() for k, v in model.policy.state_dict().items()}

        return before_step

    sample = model.replay_buffer.sample

    def recording_sample(*args: Any, **kwargs: Any) -> Any:
        record.batch = sample(*args, **kwargs)
        return record.batch

    handles = [optimizer.register_step_pre_hook(recorder(name)) for name, optimizer in optimizers.items()]
    model.replay_buffer.sample = recording_sample
    th.manual_seed(NOISE_SEED)
    with PriorityFeedback.attached(model) if feedback else nullcontext():
        model.train(gradient_steps=1, batch_size=BATCH_SIZE)
    del model.replay_buffer.sample
    for handle in handles:
        handle.remove()
    return record
