"""The vectorised environment is built as the configuration says."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecCheckNan, VecFrameStack, VecNormalize

from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.config import load_config
from sb3_webscale.experiments.environments import make_vec_env
from sb3_webscale.reproducibility.deterministic_env import DeterministicEnv


@pytest.fixture
def make(tmp_path):
    made = []

    def make(lines="", env_id="CartPole-v1", seeds=(0,), **kwargs):
        path = tmp_path / "dqn.yml"
        path.write_text(f"{env_id}:\n  policy: MlpPolicy\n  n_timesteps: 10\n{lines}")
        made.append(make_vec_env(load_config(path), seeds, **kwargs))
        return made[-1]

    yield make
    for vec_env in made:
        vec_env.close()


def test_each_environment_is_monitored_and_seeded(make):
    vec_env = make(seeds=(3, 4))
    assert vec_env.num_envs == 2
    for env in vec_env.envs:
        assert is_wrapped(env, Monitor)
        assert isinstance(env, DeterministicEnv)


def test_wrappers_go_inside_out_and_take_arguments(make):
    vec_env = make(
        "  env_wrapper:\n"
        "    - gymnasium.wrappers.TimeAwareObservation\n"
        "    - gymnasium.wrappers.DelayObservation: {delay: 1}\n"
    )
    env = vec_env.envs[0].env
    assert type(env).__name__ == "DelayObservation"
    assert type(env.env).__name__ == "TimeAwareObservation"
    assert isinstance(env.env.env, Monitor)


def test_frame_stack_normalisation_and_vectorised_wrappers(make):
    vec_env = make(
        "  frame_stack: 3\n  normalize: {norm_reward: false, clip_obs: 5.0}\n  gamma: 0.9\n"
        "  vec_env_wrapper: stable_baselines3.common.vec_env.VecCheckNan\n"
    )
    assert isinstance(vec_env, VecNormalize)
    assert (vec_env.norm_reward, vec_env.clip_obs, vec_env.gamma) == (False, 5.0, 0.9)
    assert isinstance(vec_env.venv, VecFrameStack)
    assert isinstance(vec_env.venv.venv, VecCheckNan)
    assert vec_env.observation_space.shape == (12,)


def test_evaluation_does_not_learn_statistics_nor_scale_rewards(make):
    vec_env = make("  normalize: true\n", training=False)
    assert (vec_env.training, vec_env.norm_reward) == (False, False)


def test_arguments_reach_the_environment(make):
    vec_env = make("  env_kwargs: {map_name: 8x8}\n", env_id="FrozenLake-v1")
    assert vec_env.observation_space.n == 64


def test_atari_wrapper_gives_stacked_frames(make):
    pytest.importorskip("ale_py")
    lines = "  env_wrapper: stable_baselines3.common.atari_wrappers.AtariWrapper\n  frame_stack: 4\n"
    vec_env = make(lines, env_id="PongNoFrameskip-v4")
    observations = vec_env.reset()
    assert observations.shape == (1, 84, 84, 4)
    assert observations.dtype == np.uint8


@pytest.mark.parametrize(
    ("lines", "env_id", "message"),
    [
        ("", "CartPole-v9", r"env = 'CartPole-v9' is not registered .* did you mean 'CartPole-v\d'"),
        ("  env_kwargs: {colour: red}\n", "CartPole-v1", "CartPole-v1.env_kwargs is refused: .*colour"),
        ("  monitor_kwargs: {colour: red}\n", "CartPole-v1", "monitor_kwargs is refused"),
        ("  env_wrapper: no.such.Wrapper\n", "CartPole-v1", r"env_wrapper\[0\] = 'no.such.Wrapper' cannot be imported"),
        ("  env_wrapper: [{gymnasium.wrappers.DelayObservation: {a: 1}}]\n", "CartPole-v1", "is refused: .*'a'"),
        ("  vec_env_wrapper: VecMonitor\n", "CartPole-v1", r"vec_env_wrapper\[0\] = 'VecMonitor' is not a class"),
        ("  normalize: {norm_everything: true}\n", "CartPole-v1", "normalize is refused"),
    ],
)
def test_mistakes_are_named(make, lines, env_id, message):
    with pytest.raises(ConfigError, match=message):
        make(lines, env_id=env_id)
