"""Configurations in rl-baselines3-zoo style load, and every mistake in one is named."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from stable_baselines3.common.utils import LinearSchedule

from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.class_paths import ClassReference
from sb3_webscale.experiments.config import load_config
from sb3_webscale.experiments.config_file import read_document


@pytest.fixture
def load(tmp_path):
    def load(text, name="dqn.yml", **kwargs):
        path = tmp_path / name
        path.write_text(text)
        return load_config(path, **kwargs)

    return load


MINIMAL = "CartPole-v1:\n  policy: MlpPolicy\n  n_timesteps: 100\n"


def with_line(line):
    return MINIMAL + f"  {line}\n"


ATARI = """
atari:
  env_wrapper:
    - stable_baselines3.common.atari_wrappers.AtariWrapper
  frame_stack: 4
  policy: 'CnnPolicy'
  n_timesteps: !!float 1e7
  buffer_size: 100000
  learning_rate: !!float 1e-4
  optimize_memory_usage: False
  train_freq: 4
"""

CONTINUOUS = """
HalfCheetahBulletEnv-v0: &defaults
  env_wrapper:
    - rl_zoo3.wrappers.HistoryWrapper:
        horizon: 2
    - sb3_contrib.common.wrappers.TimeFeatureWrapper
  vec_env_wrapper: stable_baselines3.common.vec_env.VecMonitor
  callback:
    - rl_zoo3.callbacks.ParallelTrainCallback:
        gradient_steps: 400
  n_timesteps: !!float 1e6
  policy: 'MlpPolicy'
  learning_rate: lin_7.3e-4
  buffer_size: !!float 3e5
  ent_coef: 'auto'
  train_freq: [1, "episode"]
  gradient_steps: -1
  use_sde: True
  normalize: "{'norm_obs': True, 'norm_reward': False}"
  policy_kwargs: "dict(log_std_init=-3, net_arch=[400, 300], activation_fn=nn.ReLU)"
HopperBulletEnv-v0:
  <<: *defaults
  learning_rate: 1e-3
  normalize: true
"""


class TestForms:
    def test_an_atari_block_serves_every_atari_environment(self, load):
        config = load(ATARI, env_id="PongNoFrameskip-v4")
        assert config.env_id == "PongNoFrameskip-v4"
        assert config.algo == "dqn"
        assert config.n_timesteps == 10_000_000
        assert config.frame_stack == 4
        assert config.env_wrapper == (ClassReference("stable_baselines3.common.atari_wrappers.AtariWrapper"),)
        assert config.hyperparameters["learning_rate"] == 1e-4
        assert "frame_stack" not in config.hyperparameters

    def test_wrappers_callbacks_schedules_and_literals(self, load):
        config = load(CONTINUOUS, "sac.yml", env_id="HalfCheetahBulletEnv-v0")
        assert config.env_wrapper == (
            ClassReference("rl_zoo3.wrappers.HistoryWrapper", {"horizon": 2}),
            ClassReference("sb3_contrib.common.wrappers.TimeFeatureWrapper"),
        )
        assert config.vec_env_wrapper == (ClassReference("stable_baselines3.common.vec_env.VecMonitor"),)
        assert config.callback[0].kwargs == {"gradient_steps": 400}
        assert isinstance(config.hyperparameters["learning_rate"], LinearSchedule)
        assert config.hyperparameters["train_freq"] == (1, "episode")
        assert config.hyperparameters["buffer_size"] == 300_000
        assert type(config.hyperparameters["buffer_size"]) is int
        assert config.policy_kwargs["activation_fn"] is torch.nn.ReLU
        assert config.normalize is True
        assert config.normalize_kwargs == {"norm_obs": True, "norm_reward": False}

    def test_merged_blocks_and_numbers_that_yaml_takes_for_text(self, load):
        config = load(CONTINUOUS, "tqc.yml", env_id="HopperBulletEnv-v0")
        assert config.algo == "tqc"
        assert config.hyperparameters["learning_rate"] == 1e-3
        assert config.normalize is True
        assert config.normalize_kwargs == {}

    def test_policy_kwargs_as_yaml(self, load):
        config = load(
            with_line("policy_kwargs: {net_arch: [64], activation_fn: nn.Tanh, optimizer_class: torch.optim.SGD}")
        )
        assert config.policy_kwargs == {
            "net_arch": [64],
            "activation_fn": torch.nn.Tanh,
            "optimizer_class": torch.optim.SGD,
        }

    def test_replay_buffer_kwargs_in_a_string(self, load):
        text = with_line('replay_buffer_class: HerReplayBuffer\n  replay_buffer_kwargs: "dict(n_sampled_goal=4)"')
        assert load(text).replay_buffer_kwargs == {"n_sampled_goal": 4}

    @pytest.mark.parametrize("kind", ["normal", "ornstein-uhlenbeck"])
    def test_noise(self, load, kind):
        config = load(with_line(f"noise_type: '{kind}'\n  noise_std: 0.1"), "td3.yml")
        assert (config.noise_type, config.noise_std) == (kind, 0.1)

    def test_the_default_block_serves_any_other_environment(self, load):
        text = "default:\n  policy: MlpPolicy\n  n_timesteps: 10\n"
        assert load(text, env_id="Pendulum-v1", name="sac.yml").env_id == "Pendulum-v1"

    def test_the_algorithm_comes_from_argument_then_block_then_file_name(self, load):
        assert load(MINIMAL).algo == "dqn"
        assert load(with_line("algo: PPO")).algo == "ppo"
        assert load(with_line("algo: ppo"), algo="a2c").algo == "a2c"

    def test_ppo_schedules(self, load):
        config = load(with_line("clip_range: lin_0.2\n  n_steps: !!float 128"), "ppo.yml")
        assert config.hyperparameters["clip_range"](0.5) == pytest.approx(0.1)
        assert config.hyperparameters["n_steps"] == 128

    def test_paths_are_relative_to_the_file(self, load, tmp_path):
        config = load(with_line("env_kwargs: {log: ./a.parquet, name: plain}"))
        assert config.resolved_env_kwargs() == {"log": str(tmp_path / "a.parquet"), "name": "plain"}
        assert config.resolve("../x.parquet") == str(tmp_path.parent / "x.parquet")
        assert config.resolve("s3://bucket/x") == "s3://bucket/x"

    def test_the_written_form_loads_as_the_same_run(self, load, tmp_path):
        config = load(CONTINUOUS, "sac.yml", env_id="HalfCheetahBulletEnv-v0", seed=7, overrides=["gamma=0.98"])
        again = load(config.as_yaml(), "written.yml")
        assert again.as_yaml() == config.as_yaml()
        assert again.seed == 7
        assert again.algo == "sac"
        assert again.hyperparameters.keys() == config.hyperparameters.keys()

    def test_a_configuration_is_frozen(self, load):
        config = load(MINIMAL)
        with pytest.raises(ValidationError, match="frozen"):
            config.seed = 1


class TestOverrides:
    def test_values_are_written_as_in_the_file(self, load):
        config = load(
            with_line("policy_kwargs: {net_arch: [64]}"),
            overrides=["gamma=0.9", "policy_kwargs.net_arch=[32, 32]", "policy_kwargs.activation_fn=nn.Tanh"],
            n_timesteps=5,
            seed=3,
        )
        assert config.hyperparameters["gamma"] == 0.9
        assert config.policy_kwargs == {"net_arch": [32, 32], "activation_fn": torch.nn.Tanh}
        assert (config.n_timesteps, config.seed) == (5, 3)

    @pytest.mark.parametrize("override", ["gamma", "=1", "a..b=1", "gamma.x=1", "gamma=[1"])
    def test_malformed_ones_are_refused(self, load, override):
        with pytest.raises(ConfigError, match="set = "):
            load(with_line("gamma: 0.9"), overrides=[override])


DATA = "data: {source: a.parquet, converter: recsys.open_bandit"


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("learning_rat: 0.1", r"dqn.yml: CartPole-v1.learning_rat = 0.1 .* did you mean 'learning_rate'"),
            ("frame_stak: 4", "did you mean 'frame_stack'"),
            ("online_sampling: true", "hindsight goals are always sampled"),
            ("model_class: sac", "name the algorithm with 'algo'"),
            ("buffer_size: 1.5", "buffer_size = 1.5 must be a whole number"),
            ("learning_rate: fast", "learning_rate = 'fast' must be a finite number"),
            ("policy_kwargs: \"__import__('os')\"", "is not allowed in a literal"),
            ("policy_kwargs: [1]", r"policy_kwargs = \[1\] must be a mapping"),
            ("policy_kwargs: {activation_fn: nn.Nothing}", "activation_fn = 'nn.Nothing' cannot be imported"),
            ("env_wrapper: 3", r"env_wrapper\[0\] = 3 must be"),
            ("env_wrapper: [{a.B: {}, c.D: {}}]", r"env_wrapper\[0\]"),
            ("normalize: 3", "normalize = 3 must be a mapping"),
            ("n_envs: 0", "n_envs = 0: Input should be greater than 0"),
            ("seed: -1", "seed = -1"),
            ("vec_env: threads", "vec_env = 'threads': Input should be 'dummy' or 'subproc'"),
            ("noise_type: normal", "noise_type and noise_std go together"),
            ("noise_type: pink\n  noise_std: 1", "noise_type = 'pink'"),
            ("replay_buffer_kwargs: {alpha: 0.5}", "replay_buffer_kwargs needs replay_buffer_class"),
            ("data: {source: a.parquet}", "give exactly one of 'converter'"),
            (DATA + ", rule: r.yml}", "give exactly one of 'converter'"),
            (DATA + ", online_ration: 0.5}", r"data.online_ration = 0.5 .* did you mean 'online_ratio'"),
            ("data: {converter: x}", "CartPole-v1.data.source is missing"),
            ("evaluation: {episodes: 3}", r"evaluation.episodes = 3 .* did you mean 'n_eval_episodes'"),
            (f"off_policy_evaluation: {DATA[6:]}, policy: best}}", "off_policy_evaluation.policy = 'best'"),
            (f"off_policy_evaluation: {DATA[6:]}, epsilon: 2}}", "off_policy_evaluation.epsilon = 2"),
            (f"off_policy_evaluation: {DATA[6:]}, temperature: 0}}", "off_policy_evaluation.temperature = 0"),
            ("torch_num_threads: 0", "torch_num_threads = 0"),
            ("gamma: 0.9\n  gamma: 0.8", "key 'gamma' is written twice"),
            ("algo: dqm", r"algo = 'dqm' is not an algorithm; did you mean 'dqn'"),
        ],
    )
    def test_mistakes_in_a_block(self, load, line, message):
        with pytest.raises(ConfigError, match=message):
            load(with_line(line))

    def test_missing_keys(self, load):
        with pytest.raises(ConfigError, match=r"CartPole-v1.policy is missing.*") as caught:
            load("CartPole-v1:\n  gamma: 0.9\n")
        assert "n_timesteps is missing" in str(caught.value)

    def test_a_replay_buffer_for_an_algorithm_without_one(self, load):
        with pytest.raises(ConfigError, match="PPO has no replay buffer; remove the key"):
            load(with_line("replay_buffer_class: ReplayBuffer"), "ppo.yml")

    @pytest.mark.parametrize(
        ("text", "kwargs", "message"),
        [
            ("", {}, "it holds NoneType"),
            ("- 1\n", {}, "it holds list"),
            ("CartPole-v1: 3\n", {}, "CartPole-v1 must be a mapping"),
            ("CartPole-v1: [\n", {}, "is not valid YAML"),
            ("CartPole-v1: !!python/name:os.system {}\n", {}, "is not valid YAML"),
            (MINIMAL + "Pendulum-v1: {policy: MlpPolicy}\n", {}, "names 2 environments .* choose one with --env"),
            (MINIMAL, {"env_id": "CartPole-v0"}, "did you mean 'CartPole-v1'"),
        ],
    )
    def test_mistakes_in_a_file(self, load, text, kwargs, message):
        with pytest.raises(ConfigError, match=message):
            load(text, **kwargs)

    def test_a_file_name_that_is_no_algorithm(self, load):
        with pytest.raises(ConfigError, match="algo is missing, and the file is not named for an algorithm"):
            load(MINIMAL, "experiment.yml")

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(ConfigError, match=r"none.yml' cannot be read \(No such file"):
            load_config(tmp_path / "none.yml")

    def test_several_mistakes_are_named_together(self, load):
        with pytest.raises(ConfigError, match=r"n_envs = 0.*frame_stack = -1"):
            load(with_line("n_envs: 0\n  frame_stack: -1"))


def test_exponents_without_a_dot_are_numbers_at_any_depth(tmp_path):
    path = tmp_path / "dqn.yml"
    path.write_text("CartPole-v1: {a: {eps: 1e-5, list: [2E+3]}, text: lin_1e-4, quoted: '1e-5'}")
    block = read_document(path)["CartPole-v1"]
    assert block == {"a": {"eps": 1e-5, "list": [2000.0]}, "text": "lin_1e-4", "quoted": "1e-5"}
