"""Runs are recorded in a real MLflow store on SQLite."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from stable_baselines3.common.logger import Figure, Logger

from sb3_webscale.errors import ConfigError
from sb3_webscale.reproducibility.logger_bridge import TrackerOutput
from sb3_webscale.reproducibility.tracking import MlflowTracker, connect, default_tracking_uri


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def client(store):
    return connect(f"sqlite:///{store / 'mlflow.db'}")


def test_a_run_keeps_params_tags_curves_and_files(client, store, tmp_path):
    with MlflowTracker(client, "first", "name") as tracker:
        tracker.log_params({f"param.{i}": str(i) for i in range(250)})
        tracker.set_tags({"tag": "value"})
        for step in range(30):
            tracker.log_metrics({"loss": step / 2}, step)
        tracker.log_json({"b": 1}, "identity/x.json")
        (tmp_path / "file.bin").write_bytes(b"\0")
        tracker.log_file(tmp_path / "file.bin", "model")
    run = client.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "name"
    assert len(run.data.params) == 250
    assert run.data.tags["tag"] == "value"
    assert [(m.step, m.value) for m in client.get_metric_history(tracker.run_id, "loss")] == [
        (step, step / 2) for step in range(30)
    ]
    assert run.info.artifact_uri.startswith((store / "artifacts").as_uri())
    assert {file.path for file in client.list_artifacts(tracker.run_id, "model")} == {"model/file.bin"}


def test_long_values_are_cut_visibly(client):
    with MlflowTracker(client, "first") as tracker:
        tracker.log_params({"long": "x" * 9000})
        tracker.set_tags({"long": "y" * 9000})
    data = client.get_run(tracker.run_id).data
    assert "[cut, 9000 characters" in data.params["long"]
    assert "[cut, 9000 characters" in data.tags["long"]


def test_an_error_closes_the_run_as_failed_with_its_reason(client):
    tracker = MlflowTracker(client, "first")
    with pytest.raises(ValueError, match="broken"), tracker:
        raise ValueError("broken")
    run = client.get_run(tracker.run_id)
    assert run.info.status == "FAILED"
    assert run.data.tags["webscale.error"] == "ValueError: broken"


def test_an_interrupt_closes_the_run_as_killed(client):
    tracker = MlflowTracker(client, "first")
    with pytest.raises(KeyboardInterrupt), tracker:
        raise KeyboardInterrupt
    assert client.get_run(tracker.run_id).info.status == "KILLED"


def test_no_global_run_is_touched(client):
    import mlflow

    with MlflowTracker(client, "first"):
        assert mlflow.active_run() is None


def test_the_logger_of_the_algorithm_writes_numbers_only(client):
    with MlflowTracker(client, "first") as tracker:
        logger = Logger(folder=None, output_formats=[TrackerOutput(tracker)])
        logger.record("train/loss", 0.5)
        logger.record("train/n", 3)
        logger.record("text", "no number")
        logger.record("picture", Figure(None, close=False))
        logger.record("train/diverged", math.nan)
        logger.dump(step=7)
    metrics = client.get_run(tracker.run_id).data.metrics
    assert set(metrics) == {"train/loss", "train/n", "train/diverged"}
    assert math.isnan(metrics["train/diverged"])
    assert client.get_metric_history(tracker.run_id, "train/loss")[0].step == 7


def test_a_new_store_stays_out_of_git(tmp_path):
    connect(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}")
    assert (tmp_path / "runs" / ".gitignore").read_text() == "*\n"


def test_the_default_is_a_file_under_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert default_tracking_uri() == f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://example.org")
    assert default_tracking_uri() == "http://example.org"


def test_a_store_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"tracking_uri = 'sqlite:///.*' cannot be opened"):
        connect(f"sqlite:///{tmp_path / 'file' / 'x' / 'mlflow.db'}")


def test_a_deleted_experiment_is_named(client):
    client.delete_experiment(client.create_experiment("gone"))
    with pytest.raises(ConfigError, match="experiment = 'gone' is deleted"):
        MlflowTracker(client, "gone")


def test_processes_that_start_at_once_share_one_empty_store(tmp_path):
    code = (
        "import sys; from sb3_webscale.reproducibility.tracking import *\n"
        "with MlflowTracker(connect(sys.argv[1]), 'shared') as t: t.log_metrics({'a': 1.0}, 0)\n"
    )
    uri = f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"
    started = [subprocess.Popen([sys.executable, "-c", code, uri], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(process.communicate()[1], process.returncode) for process in started] == [("", 0)] * 3
    client = connect(uri)
    experiment = client.get_experiment_by_name("shared")
    runs = client.search_runs([experiment.experiment_id])
    assert [run.data.metrics for run in runs] == [{"a": 1.0}] * 3
