"""Action values become the probabilities with which the policy acts."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_webscale.errors import ConfigError, InvalidInputError
from sb3_webscale.experiments.policy_probabilities import action_probabilities, action_values

VALUES = np.array([[1.0, 3.0, 2.0], [5.0, 5.0, 0.0]])


def test_greedy_takes_the_first_best_action():
    np.testing.assert_array_equal(action_probabilities(VALUES, "greedy"), [[0, 1, 0], [1, 0, 0]])


def test_epsilon_greedy_spreads_epsilon_over_all_actions():
    expected = [[0.1, 0.8, 0.1], [0.8, 0.1, 0.1]]
    np.testing.assert_allclose(action_probabilities(VALUES, "epsilon_greedy", epsilon=0.3), expected)


def test_softmax_is_stable_and_follows_the_temperature():
    expected = np.exp(VALUES) / np.exp(VALUES).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(action_probabilities(VALUES, "softmax"), expected)
    np.testing.assert_allclose(action_probabilities(VALUES * 1e4, "softmax", temperature=1e4), expected)
    assert action_probabilities(VALUES, "softmax").dtype == np.float64


@pytest.mark.parametrize(
    ("policy", "kwargs", "message"),
    [
        ("epsilon_greedy", {"epsilon": 1.5}, r"epsilon = 1.5 must be in \[0, 1\]"),
        ("softmax", {"temperature": 0.0}, "temperature = 0.0 must be > 0"),
    ],
)
def test_parameters_outside_their_range(policy, kwargs, message):
    with pytest.raises(InvalidInputError, match=message):
        action_probabilities(VALUES, policy, **kwargs)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(bad):
    with pytest.raises(InvalidInputError, match="the training has diverged"):
        action_probabilities(np.array([[1.0, bad]]), "greedy")


@pytest.mark.parametrize("algorithm", [DQN, QRDQN])
def test_the_greedy_policy_is_what_the_model_predicts(algorithm):
    vec_env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    vec_env.reset()
    for _ in range(20):
        vec_env.step([vec_env.action_space.sample()])
    model = algorithm("MlpPolicy", vec_env, buffer_size=10, seed=0, device="cpu")
    observations = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    probabilities = action_probabilities(action_values(model, observations), "greedy")
    predicted, _ = model.predict(vec_env.normalize_obs(observations), deterministic=True)
    assert probabilities.shape == (300, 2)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), predicted)


def test_no_observations_give_no_rows():
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=10)
    assert action_values(model, np.empty((0, 4), np.float32)).shape == (0, 2)


def test_an_algorithm_without_action_values_is_refused():
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(ConfigError, match=r"algo = PPO .* use dqn or qrdqn"):
        action_values(model, np.zeros((1, 4), np.float32))
