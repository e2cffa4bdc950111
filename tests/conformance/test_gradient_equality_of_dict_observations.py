"""Weighted gradients are exact for Dict observations too, with hindsight and without."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch as th
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_webscale import PriorityFeedback, WebscaleDictReplayBuffer, WebscaleHerReplayBuffer

from .recorded_update import BATCH_SIZE, NOISE_SEED, recorded_update
from .test_gradient_equality import BOUNDS, largest_error, set_entropy_coefficient
from .tiny_models import DISCRETE_ALGORITHMS, tiny_model
from .weighted_losses import critic_loss, weighted_gradients


@pytest.mark.parametrize("buffer_class", [WebscaleDictReplayBuffer, WebscaleHerReplayBuffer])
@pytest.mark.parametrize("name", ["DQN", "QRDQN", "SAC", "TD3", "TQC"])
def test_critic(name: str, buffer_class: Any) -> None:
    discrete = name in DISCRETE_ALGORITHMS
    env = DummyVecEnv([partial(BitFlippingEnv, n_bits=5, continuous=not discrete)] * 2)
    model: Any = tiny_model(
        name,
        env=env,
        policy="MultiInputPolicy",
        replay_buffer_class=buffer_class,
        replay_buffer_kwargs={"prioritized": True, "beta_start": 1.0, "alpha": 1.0},
        batch_size=BATCH_SIZE,
        **({"max_grad_norm": 1e12} if discrete else {}),
    )
    model.learn(120, callback=PriorityFeedback())
    update = recorded_update(model, feedback=True)
    set_entropy_coefficient(model, update)
    th.manual_seed(NOISE_SEED)
    loss = critic_loss(name, model, update.policy_before, update.batch)
    weighted = weighted_gradients(loss, update.batch.weights, update.policy_before)
    plain = weighted_gradients(loss, th.ones_like(update.batch.weights), update.policy_before)
    assert largest_error(update.gradients["critic"], weighted) < BOUNDS[th.float32]
    assert largest_error(update.gradients["critic"], plain) > 0.01
