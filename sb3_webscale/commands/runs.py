"""``sb3-webscale runs list | compare | reproduce``."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from rich.table import Table

from sb3_webscale.commands.console import make_console
from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.class_paths import nearest
from sb3_webscale.experiments.results import comparison_table
from sb3_webscale.reproducibility.run_record import WEIGHTS_TAG
from sb3_webscale.reproducibility.tracking import connect

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

__all__ = ["compare_command", "list_command", "reproduce_command"]

_SHOWN_METRICS = {
    "reward": "evaluation/mean_reward",
    "off-policy": "off_policy/dr",
    "steps/s": "performance/steps_per_second",
}
_COMPARED_TAGS = ("webscale.", "code.", "data.", "package.", "hardware.", "python")


def list_command(arguments: argparse.Namespace) -> None:
    """List runs, newest first.

    :param arguments: parsed command line
    """
    client = connect(arguments.tracking_uri)
    experiments = {e.experiment_id: e.name for e in client.search_experiments()}
    if arguments.experiment is not None and arguments.experiment not in experiments.values():
        hint = nearest(arguments.experiment, list(experiments.values()))
        msg = f"experiment = {arguments.experiment!r} is not in the store; {hint}"
        raise ConfigError(msg)
    chosen = [key for key, name in experiments.items() if arguments.experiment in (None, name)]
    table = Table("run", "name", "experiment", "started", "status", *_SHOWN_METRICS, "weights")
    for run in client.search_runs(chosen, max_results=arguments.limit, order_by=["attributes.start_time DESC"]):
        shown = (run.data.metrics.get(metric) for metric in _SHOWN_METRICS.values())
        table.add_row(
            run.info.run_id,
            run.info.run_name,
            experiments[run.info.experiment_id],
            datetime.fromtimestamp(run.info.start_time / 1000).isoformat(sep=" ", timespec="seconds"),
            run.info.status,
            *("" if value is None else f"{value:.5g}" for value in shown),
            run.data.tags.get(WEIGHTS_TAG, "")[:16],
        )
    make_console().print(table)


def compare_command(arguments: argparse.Namespace) -> None:
    """Set the settings, results and circumstances of two runs beside each other.

    :param arguments: parsed command line
    """
    client = connect(arguments.tracking_uri)
    runs = [_get(client, run_id) for run_id in arguments.run_ids]
    facts = [_facts(run) for run in runs]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    rows = {name: [fact.get(name, "") for fact in facts] for name in names}
    if not arguments.all:
        rows = {name: values for name, values in rows.items() if len(set(values)) > 1}
    title = "all lines, * where the runs differ" if arguments.all else "lines that differ"
    headings = [f"{run.info.run_name}\n{run.info.run_id[:12]}" for run in runs]
    make_console().print(comparison_table(title, headings, rows))


def reproduce_command(arguments: argparse.Namespace) -> None:
    """Run a tracked run again and compare the hash of the final weights.

    :param arguments: parsed command line
    """
    from sb3_webscale.reproducibility.reproduce import reproduce

    console = make_console()
    done = reproduce(
        connect(arguments.tracking_uri),
        arguments.run_id,
        base_dir=arguments.base_dir,
        progress=not arguments.no_progress,
        report=lambda line: console.print(
            f"warning: differs from the original: {line}", highlight=False, style="yellow"
        ),
    )
    console.print(
        f"reproduced: run {done.original_run_id} and its re-run {done.result.run_id} "
        f"have the same weights, sha256 {done.result.weights_sha256}",
        highlight=False,
    )


def _get(client: MlflowClient, run_id: str) -> Run:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id)
    except MlflowException as error:
        msg = f"run_id = {run_id!r} is not in {client.tracking_uri}; see: sb3-webscale runs list"
        raise ConfigError(msg) from error


def _facts(run: Run) -> dict[str, str]:
    """Settings first, then results, then circumstances."""
    metrics = {name: f"{value:.6g}" for name, value in sorted(run.data.metrics.items())}
    tags = {name: value for name, value in sorted(run.data.tags.items()) if name.startswith(_COMPARED_TAGS)}
    return {**dict(sorted(run.data.params.items())), **metrics, **tags}
