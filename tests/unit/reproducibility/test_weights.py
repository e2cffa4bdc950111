"""The hash of the weights changes with any of them, and with nothing else."""

from __future__ import annotations

import pytest
import torch
from stable_baselines3 import DQN, SAC

from sb3_webscale.reproducibility.weights import hash_weights


def dqn(seed=0):
    return DQN("MlpPolicy", "CartPole-v1", seed=seed, buffer_size=50, learning_starts=5, device="cpu")


def test_equal_seeds_give_equal_hashes_and_others_do_not():
    assert hash_weights(dqn()) == hash_weights(dqn())
    assert hash_weights(dqn()) != hash_weights(dqn(1))


def test_it_survives_saving_and_loading(tmp_path):
    model = dqn()
    model.learn(20)
    model.save(tmp_path / "model.zip")
    assert hash_weights(DQN.load(tmp_path / "model.zip", device="cpu")) == hash_weights(model)


@pytest.mark.parametrize("name", ["q_net", "q_net_target"])
def test_one_bit_of_any_network_counts(name):
    model = dqn()
    before = hash_weights(model)
    weight = next(getattr(model, name).parameters())
    with torch.no_grad():
        weight.view(-1)[0] = torch.nextafter(weight.view(-1)[0], torch.tensor(9.0))
    assert hash_weights(model) != before


def test_the_optimizer_and_the_temperature_count():
    model = SAC("MlpPolicy", "Pendulum-v1", seed=0, buffer_size=50, device="cpu")
    hashes = [hash_weights(model)]
    with torch.no_grad():
        model.log_ent_coef += 1e-3
    hashes.append(hash_weights(model))
    loss = sum(parameter.sum() for parameter in model.critic.parameters())
    loss.backward()
    model.critic.optimizer.param_groups[0]["lr"] = 0.0
    model.critic.optimizer.step()
    hashes.append(hash_weights(model))
    assert len(set(hashes)) == 3
