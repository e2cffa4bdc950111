"""The command line trains into a tracked run, and a tracked run repeats to the same weights."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_webscale.cli import main
from sb3_webscale.reproducibility.tracking import connect
from sb3_webscale.reproducibility.weights import hash_weights

CONFIG = """
CartPole-v1:
  algo: dqn
  policy: MlpPolicy
  n_timesteps: 300
  learning_rate: lin_1e-3
  buffer_size: 200
  learning_starts: 20
  batch_size: 16
  train_freq: 4
  policy_kwargs: "dict(net_arch=[16], activation_fn=nn.Tanh)"
  replay_buffer_class: {buffer_class}
  torch_num_threads: 1
  seed: 11
  evaluation: {{n_eval_episodes: 2}}
"""


@pytest.fixture(autouse=True)
def _leave_torch_as_it_was():
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """MLflow takes seconds to create its tables, so it does it once."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def project(tmp_path, monkeypatch, empty_store):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_store, tmp_path / "runs")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "cartpole.yml").write_text(CONFIG.format(buffer_class="WebscaleReplayBuffer"))
    return tmp_path


def runs(project):
    client = connect(f"sqlite:///{project / 'runs' / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return client, client.search_runs(experiments, order_by=["attributes.start_time ASC"])


def stored_config(run):
    return Path(run.info.artifact_uri.removeprefix("file://")) / "identity" / "config.yml"


def train(*arguments):
    return main(["train", "--config", "config/cartpole.yml", "--no-progress", *arguments])


def test_a_run_is_tracked_whole(project, capsys):
    assert train("--output", "out", "--run-name", "mine", "--set", "gamma=0.9") == 0
    printed = capsys.readouterr().out
    client, [run] = runs(project)
    assert run.info.run_id in printed
    assert "mlflow ui --backend-store-uri" in printed
    assert (run.info.status, run.info.run_name) == ("FINISHED", "mine")
    assert run.data.params["env_id"] == "CartPole-v1"
    assert run.data.params["algo"] == "dqn"
    assert run.data.params["gamma"] == "0.9"
    assert run.data.params["seed"] == "11"
    assert run.data.tags["package.torch"] == metadata.version("torch")
    assert run.data.tags["hardware.torch_threads"] == "1"
    assert run.data.tags["webscale.config_base_dir"] == str(project / "config")
    assert len(run.data.tags["webscale.weights_sha256"]) == 64
    for name in ("evaluation/mean_reward", "train/loss", "rollout/ep_rew_mean", "performance/steps_per_second"):
        assert name in run.data.metrics
    steps = [point.step for point in client.get_metric_history(run.info.run_id, "rollout/ep_rew_mean")]
    assert len(steps) > 1
    assert steps == sorted(steps)
    files = {file.path for folder in ("identity", "model") for file in client.list_artifacts(run.info.run_id, folder)}
    assert files >= {"identity/config.yml", "identity/identity.json", "identity/seeds.json", "model/model.zip"}
    assert (
        hash_weights(DQN.load(project / "out" / "model.zip", device="cpu")) == run.data.tags["webscale.weights_sha256"]
    )


def test_a_run_repeats_to_the_same_weights_from_any_directory(project, capsys, monkeypatch):
    assert train() == 0
    client, [original] = runs(project)
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    arguments = ["reproduce", original.info.run_id, "--tracking-uri", client.tracking_uri, "--no-progress"]
    assert main(arguments) == 0
    assert "have the same weights" in capsys.readouterr().out
    _, [_, repeated] = runs(project)
    assert repeated.data.tags["webscale.reproduces"] == original.info.run_id
    assert repeated.data.tags["webscale.reproduced"] == "true"
    for tag in ("webscale.weights_sha256", "webscale.environment_0.digest", "webscale.config_sha256"):
        assert repeated.data.tags[tag] == original.data.tags[tag]


def test_a_changed_configuration_is_found_out(project, capsys):
    assert train() == 0
    _, [original] = runs(project)
    path = stored_config(original)
    path.write_text(path.read_text().replace("seed: 11", "seed: 12"))
    assert main(["runs", "reproduce", original.info.run_id, "--no-progress"]) == 2
    error = capsys.readouterr().err
    assert "is not reproduced: weights_sha256 was" in error
    assert "environment 0: seeds differ, (11,) against (12,)" in error
    _, [_, repeated] = runs(project)
    assert repeated.data.tags["webscale.reproduced"] == "false"


def test_the_first_differing_step_is_named(project, capsys):
    assert train() == 0
    _, [original] = runs(project)
    path = stored_config(original)
    path.write_text(path.read_text().replace("lin_1e-3", "lin_2e-2"))
    assert main(["reproduce", original.info.run_id, "--no-progress"]) == 2
    assert "environment 0: call " in capsys.readouterr().err


def test_the_command_line_equals_the_plain_script(project):
    """No hidden seeding or wrapping: the weights are those of Stable-Baselines3 called by hand."""
    assert train("--set", "replay_buffer_class=ReplayBuffer", "--set", "learning_rate=0.001") == 0
    _, [run] = runs(project)
    model = DQN(
        "MlpPolicy",
        DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))]),
        learning_rate=0.001,
        buffer_size=200,
        learning_starts=20,
        batch_size=16,
        train_freq=4,
        policy_kwargs={"net_arch": [16], "activation_fn": torch.nn.Tanh},
        seed=11,
    )
    model.learn(300)
    assert hash_weights(model) == run.data.tags["webscale.weights_sha256"]


def test_prioritized_replay_gets_its_feedback(project):
    arguments = ["--set", "replay_buffer_kwargs={prioritized: true}", "--n-timesteps", "600"]
    assert train(*arguments) == 0
    assert train(*arguments) == 0
    _, both = runs(project)
    assert len({run.data.tags["webscale.weights_sha256"] for run in both}) == 1


@pytest.mark.parametrize("vec_env", ["dummy", "subproc"])
def test_several_environments_with_normalisation(project, vec_env):
    lines = ["n_envs=2", f"vec_env={vec_env}", "normalize=true", "learning_rate=0.001"]
    assert train(*(word for line in lines for word in ("--set", line)), "--output", "out") == 0
    _, [run] = runs(project)
    assert (project / "out" / "vecnormalize.pkl").is_file()
    assert {f"webscale.environment_{i}.digest" for i in range(2)} <= run.data.tags.keys()
    assert np.isfinite(run.data.metrics["evaluation/mean_reward"])


def test_a_mistake_is_one_line_and_exit_code_2(project, capsys):
    assert train("--set", "gama=0.9") == 2
    error = capsys.readouterr().err
    assert error.startswith("sb3-webscale: error: config/cartpole.yml: CartPole-v1.gama = 0.9")
    assert "did you mean 'gamma'?" in error
    assert "Traceback" not in error
    assert runs(project)[1] == []


def test_runs_are_listed_and_compared(project, capsys):
    assert train("--experiment", "one") == 0
    assert train("--experiment", "one", "--seed", "12") == 0
    _, [first, second] = runs(project)
    capsys.readouterr()
    assert main(["runs", "list", "--experiment", "one"]) == 0
    listed = capsys.readouterr().out
    assert first.info.run_id in listed
    assert second.info.run_id in listed
    assert main(["runs", "compare", first.info.run_id, second.info.run_id]) == 0
    compared = capsys.readouterr().out
    assert "seed *" in compared
    assert "buffer_size" not in compared
    assert main(["runs", "list", "--experiment", "two"]) == 2
    assert main(["runs", "compare", first.info.run_id, "none"]) == 2
    assert main(["reproduce", "none"]) == 2
    assert "run_id = 'none' is not in sqlite" in capsys.readouterr().err


def test_a_run_whose_files_are_gone_is_named(project, capsys):
    assert train() == 0
    _, [run] = runs(project)
    shutil.rmtree(project / "runs" / "artifacts")
    assert main(["reproduce", run.info.run_id]) == 2
    assert "its files cannot be read" in capsys.readouterr().err


def test_a_training_is_kept_when_the_evaluation_after_it_fails(project, capsys):
    config = project / "config" / "cartpole.yml"
    wrapper = "  env_wrapper: {gymnasium.wrappers.TimeLimit: {max_episode_steps: 3}}\n"
    config.write_text(config.read_text() + wrapper)
    assert main(["train", "--config", str(config), "--output", str(project / "kept"), "--no-progress"]) == 2
    assert "ended by a wrapper" in capsys.readouterr().err
    assert (project / "kept" / "model.zip").exists()
    _, (run,) = runs(project)
    assert run.info.status == "FAILED"
    assert run.data.tags["webscale.weights_sha256"]


def test_what_would_fail_after_training_is_refused_before(project, capsys):
    config = project / "config" / "cartpole.yml"
    log = Path(__file__).parents[2] / "zoo" / "data" / "open_bandit" / "random.parquet"
    section = f"  off_policy_evaluation: {{converter: recsys.open_bandit, source: {log}}}\n"
    plain = config.read_text()
    config.write_text(plain + section)
    assert main(["train", "--config", str(config), "--no-progress", "--n-timesteps", "1000000000"]) == 2
    assert "observation_space of the log" in capsys.readouterr().err
    config.write_text(plain)
    blocked = project / "file"
    blocked.write_text("")
    output = str(blocked / "below")
    assert (
        main(["train", "--config", str(config), "--output", output, "--no-progress", "--n-timesteps", "1000000000"])
        == 2
    )
    assert "cannot be made" in capsys.readouterr().err
