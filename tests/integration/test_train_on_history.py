"""Training on a log: history into the mixed buffer, online experience beside it, an off-policy estimate at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sb3_webscale.cli import main
from sb3_webscale.experiments.config import load_config
from sb3_webscale.experiments.history import data_fingerprints
from sb3_webscale.reproducibility.tracking import connect

pytest.importorskip("sb3_webscale_recsys")


ZOO = Path(__file__).parents[2] / "zoo"
CONFIG = ZOO / "recsys" / "dqn.yml"
LOG = ZOO / "data" / "open_bandit" / "bts.parquet"
SHORT = ["--n-timesteps", "300", "--set", "learning_starts=50", "--set", "evaluation.n_eval_episodes=5"]


@pytest.fixture(autouse=True)
def _leave_torch_as_it_was():
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


def newest(store):
    client = connect(store)
    return client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])[0]


def test_the_recsys_run_is_whole_and_repeats(store, capsys):
    extra = ["--set", "off_policy_evaluation.n_bootstrap=50", "--tracking-uri", store, "--no-progress"]
    assert main(["train", "--config", str(CONFIG), *SHORT, *extra]) == 0
    run = newest(store)
    fingerprints = data_fingerprints(load_config(CONFIG))
    assert {name: run.data.tags[f"data.{name}"] for name in fingerprints} == fingerprints
    assert set(fingerprints) == {"data", "off_policy_evaluation"}
    assert run.data.metrics["history/events"] == 10_000
    assert run.data.metrics["history/transitions"] + run.data.metrics["history/dropped.no_next_observation"] == 10_000
    for name in ("ips", "snips", "dr", "logging_value"):
        value, low, high = (run.data.metrics[f"off_policy/{name}{end}"] for end in ("", ".low", ".high"))
        assert low <= high
        assert abs(value) < 1
    assert run.data.metrics["off_policy/logging_value"] == pytest.approx(38 / 10_000)
    assert main(["reproduce", run.info.run_id, "--tracking-uri", store, "--no-progress"]) == 0
    assert "have the same weights" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("data.converter=recsys.open_bandits", "recsys.open_bandit"),
        ("data.source=none.parquet", "none.parquet"),
        ("replay_buffer_class=WebscaleReplayBuffer", "write replay_buffer_class: MixedReplayBuffer"),
    ],
)
def test_mistakes_about_the_log_are_one_line(store, capsys, change, message):
    assert main(["train", "--config", str(CONFIG), *SHORT, "--tracking-uri", store, "--set", change]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert newest(store).info.status == "FAILED"


def test_a_log_of_another_environment_is_refused(store, tmp_path, capsys):
    path = tmp_path / "dqn.yml"
    path.write_text(
        "CartPole-v1:\n  policy: MlpPolicy\n  n_timesteps: 100\n  buffer_size: 100\n"
        f"  replay_buffer_class: MixedReplayBuffer\n  data: {{converter: recsys.open_bandit, source: {LOG}}}\n"
    )
    assert main(["train", "--config", str(path), "--tracking-uri", store, "--no-progress"]) == 2
    assert "observation_space of the log" in capsys.readouterr().err


def test_a_log_can_be_checked(capsys):
    assert main(["data", "check", "recsys.open_bandit", str(LOG), "--rows", "2"]) == 0
    printed = capsys.readouterr().out
    assert "10,000" in printed
    assert "Discrete(80)" in printed
    assert main(["data", "check", "recsys.none", str(LOG)]) == 2
    assert main(["data", "check", "none.yml", str(LOG)]) == 2


def test_plugins_are_listed(capsys):
    assert main(["plugins", "list"]) == 0
    assert "recsys.open_bandit, OpenBandit-v0" in capsys.readouterr().out
