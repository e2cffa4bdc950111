"""The algorithm is built as the configuration says."""

from __future__ import annotations

import gymnasium as gym
import pytest
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise, VectorizedActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_webscale import MixedReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.config import load_config
from sb3_webscale.experiments.model import build_model, replay_buffer_arguments


@pytest.fixture
def configure(tmp_path):
    def configure(lines, algo="dqn", env_id="CartPole-v1"):
        path = tmp_path / f"{algo}.yml"
        path.write_text(f"{env_id}:\n  policy: MlpPolicy\n  n_timesteps: 500\n{lines}")
        return load_config(path)

    return configure


def build(config):
    vec_env = DummyVecEnv([lambda: gym.make(config.env_id)] * config.n_envs)
    return build_model(config, vec_env)


def test_hyperparameters_reach_the_algorithm(configure):
    model = build(configure("  gamma: 0.5\n  buffer_size: 1e3\n  policy_kwargs: dict(net_arch=[7])\n  seed: 5\n"))
    assert (model.gamma, model.buffer_size, model.seed) == (0.5, 1000, 5)
    assert model.policy.net_arch == [7]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ReplayBuffer", ReplayBuffer),
        ("WebscaleReplayBuffer", WebscaleReplayBuffer),
        ("stable_baselines3.common.buffers.ReplayBuffer", ReplayBuffer),
    ],
)
def test_buffers_by_short_name_and_by_path(configure, name, kind):
    model = build(configure(f"  buffer_size: 100\n  replay_buffer_class: {name}\n"))
    assert type(model.replay_buffer) is kind


def test_a_mixed_buffer_learns_the_length_of_the_training_and_the_ratio(configure):
    arguments = replay_buffer_arguments(
        configure(
            "  replay_buffer_class: MixedReplayBuffer\n"
            "  data: {converter: recsys.open_bandit, source: a.parquet, online_ratio: 0.5}\n"
        )
    )
    assert arguments["replay_buffer_class"] is MixedReplayBuffer
    assert arguments["replay_buffer_kwargs"] == {"total_timesteps": 500, "online_ratio": 0.5}


def test_history_needs_a_mixed_buffer(configure):
    data = "  data: {converter: recsys.open_bandit, source: a.parquet}\n"
    with pytest.raises(ConfigError, match="write replay_buffer_class: MixedReplayBuffer"):
        replay_buffer_arguments(configure(data + "  replay_buffer_class: WebscaleReplayBuffer\n"))


@pytest.mark.parametrize(
    ("name", "kind"), [("normal", NormalActionNoise), ("ornstein-uhlenbeck", OrnsteinUhlenbeckActionNoise)]
)
def test_noise(configure, name, kind):
    lines = f"  buffer_size: 100\n  noise_type: {name}\n  noise_std: 0.2\n"
    assert type(build(configure(lines, "td3", "Pendulum-v1")).action_noise) is kind
    several = build(configure(lines + "  n_envs: 2\n", "td3", "Pendulum-v1"))
    assert isinstance(several.action_noise, VectorizedActionNoise)


@pytest.mark.parametrize(
    ("lines", "algo", "message"),
    [
        ("  noise_type: normal\n  noise_std: 0.1\n", "dqn", "dqn takes no action noise; remove it"),
        ("  replay_buffer_class: Buffer\n", "dqn", "replay_buffer_class = 'Buffer' is not a class"),
        ("  replay_buffer_class: ReplayBuffer\n  replay_buffer_kwargs: {alpha: 1}\n", "dqn", "DQN refuses .*alpha"),
        ("  policy: no.such.Policy\n", "dqn", "policy = 'no.such.Policy' cannot be imported"),
    ],
)
def test_mistakes_are_named(configure, lines, algo, message):
    if "policy:" in lines:
        config = configure("", algo).model_copy(update={"policy": "no.such.Policy"})
    else:
        config = configure(lines, algo)
    with pytest.raises(ConfigError, match=message):
        build(config)


def test_an_algorithm_that_does_not_fit_the_environment_is_named(configure):
    with pytest.raises(ConfigError, match="CartPole-v1: SAC refuses the configuration"):
        build(configure("", "sac"))
