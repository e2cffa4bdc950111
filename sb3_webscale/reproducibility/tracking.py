"""Where runs are recorded: a small tracker interface, and MLflow behind it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock

from sb3_webscale.errors import ConfigError
from sb3_webscale.reproducibility.metric_sender import MetricPoint, MetricSender
from sb3_webscale.reproducibility.parameters import shorten

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

__all__ = ["DEFAULT_EXPERIMENT", "MlflowTracker", "Tracker", "connect", "default_tracking_uri"]

DEFAULT_EXPERIMENT = "sb3_webscale"
_PARAM_LIMIT = 6000
_TAG_LIMIT = 5000
_BATCH_ITEMS = 100
_SQLITE = "sqlite:///"


class Tracker(Protocol):
    """What the trainer needs of a tracker. ``run_id`` names the run in the store."""

    run_id: str

    def log_params(self, params: Mapping[str, str]) -> None:
        """Record settings that never change; long values are cut with a visible mark."""

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Record facts that may change."""

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Queue points of curves; ``step`` is the number of environment steps."""

    def log_text(self, text: str, name: str) -> None:
        """Store a text as a file of the run."""

    def log_file(self, path: Path, directory: str) -> None:
        """Store a file of the run."""

    def finish(self, status: str) -> None:
        """Send what is queued, and close the run as ``FINISHED``, ``FAILED`` or ``KILLED``."""


def default_tracking_uri() -> str:
    """:return: ``MLFLOW_TRACKING_URI`` of the environment, else a SQLite file under the working directory"""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"{_SQLITE}{Path.cwd() / 'runs' / 'mlflow.db'}"


def connect(tracking_uri: str | None = None) -> MlflowClient:
    """Open a store; a SQLite file is created with its directory when it does not exist.

    :param tracking_uri: address of the store; see :func:`default_tracking_uri`
    :raises ConfigError: when the store cannot be opened
    """
    # MLflow counts its users, and shows bars and the creation of tables, unless told not to before it is imported.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    for name in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    uri = tracking_uri or default_tracking_uri()
    try:
        database = _sqlite_path(uri)
        if database is None:
            return _opened(MlflowClient, uri)
        _prepare_directory(database.parent)
        # Processes that start together must not all create the tables: MLflow's own lock does not prevent that.
        with FileLock(f"{database}.lock"):
            return _opened(MlflowClient, uri)
    except (MlflowException, OSError) as error:
        msg = f"tracking_uri = {uri!r} cannot be opened: {error}; give a reachable store with --tracking-uri"
        raise ConfigError(msg) from error


def _opened(client_class: type[MlflowClient], uri: str) -> MlflowClient:
    client = client_class(uri)
    client.search_experiments(max_results=1)
    return client


class MlflowTracker:
    """One MLflow run, held by an explicit client and run id, never through MLflow's global active run.

    As a context manager it closes the run as failed when the block raises, as killed on an interrupt.

    :param client: from :func:`connect`
    :param experiment: name of the experiment; created when it does not exist
    :param run_name: name of the run
    """

    def __init__(self, client: MlflowClient, experiment: str = DEFAULT_EXPERIMENT, run_name: str | None = None) -> None:
        self.client = client
        self.experiment_id = _experiment_id(client, experiment)
        run: Run = client.create_run(self.experiment_id, run_name=run_name)
        self.run_id: str = run.info.run_id
        self.artifact_uri: str = run.info.artifact_uri
        self._sender = MetricSender(self._send)
        self._open = True

    def log_params(self, params: Mapping[str, str]) -> None:
        """Record settings in as few calls as the store allows."""
        from mlflow.entities import Param

        items = [Param(key, shorten(value, _PARAM_LIMIT)) for key, value in params.items()]
        for start in range(0, len(items), _BATCH_ITEMS):
            self.client.log_batch(self.run_id, params=items[start : start + _BATCH_ITEMS])

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Record facts in as few calls as the store allows."""
        from mlflow.entities import RunTag

        items = [RunTag(key, shorten(value, _TAG_LIMIT)) for key, value in tags.items()]
        for start in range(0, len(items), _BATCH_ITEMS):
            self.client.log_batch(self.run_id, tags=items[start : start + _BATCH_ITEMS])

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Queue points; they are sent in batches from another thread."""
        self._sender.put(metrics, step)

    def log_text(self, text: str, name: str) -> None:
        """Store a text as a file of the run."""
        self.client.log_text(self.run_id, text, name)

    def log_json(self, value: Any, name: str) -> None:
        """Store plain data as a JSON file of the run."""
        self.log_text(json.dumps(value, indent=2, sort_keys=True) + "\n", name)

    def log_file(self, path: Path, directory: str) -> None:
        """Store a file of the run."""
        self.client.log_artifact(self.run_id, str(path), directory)

    def finish(self, status: str = "FINISHED") -> None:
        """Send what is queued and close the run; a second call does nothing."""
        if self._open:
            try:
                self._sender.close()
            finally:  # a second interrupt, while points are sent, must not leave the run open
                self.client.set_terminated(self.run_id, status)
                self._open = False

    def __enter__(self) -> MlflowTracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish("FINISHED")
            return
        try:
            if self._open and error is not None:
                self.set_tags({"webscale.error": f"{kind.__name__}: {error}"})
        finally:
            self.finish("KILLED" if issubclass(kind, KeyboardInterrupt) else "FAILED")

    def _send(self, points: list[MetricPoint]) -> None:
        from mlflow.entities import Metric

        self.client.log_batch(self.run_id, metrics=[Metric(p.name, p.value, p.milliseconds, p.step) for p in points])


def _experiment_id(client: MlflowClient, name: str) -> str:
    """Find or create an experiment; another process may create it at the same moment."""
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        database = _sqlite_path(client.tracking_uri)
        location = (database.parent / "artifacts").as_uri() if database is not None else None
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage != "active":
        msg = f"experiment = {name!r} is deleted in the store; restore it, or choose another with --experiment"
        raise ConfigError(msg)
    return str(experiment.experiment_id)


def _sqlite_path(uri: str) -> Path | None:
    return Path(uri.removeprefix(_SQLITE)).absolute() if uri.startswith(_SQLITE) else None


def _prepare_directory(directory: Path) -> None:
    """Create the directory of the store, and keep it out of git, so that a run does not make the tree dirty."""
    if not directory.exists():
        directory.mkdir(parents=True)
        (directory / ".gitignore").write_text("*\n", encoding="utf-8")
