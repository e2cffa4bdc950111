"""Re-running a tracked run, and comparing the outcome bit by bit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sb3_webscale.errors import ReproductionError
from sb3_webscale.experiments.config import load_config
from sb3_webscale.experiments.trainer import TrainingResult, train
from sb3_webscale.reproducibility.parameters import flatten
from sb3_webscale.reproducibility.run_record import REPRODUCED_TAG, REPRODUCES_TAG, RunRecord, read_record
from sb3_webscale.reproducibility.tracking import MlflowTracker

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from sb3_webscale.experiments.config import RunConfig
    from sb3_webscale.reproducibility.identity import RunIdentity
    from sb3_webscale.reproducibility.seeding import SeedTree

__all__ = ["Reproduction", "identity_differences", "reproduce"]

# Parts of the identity that come from the circumstances; the rest is the configuration, which is re-run as it was.
_CIRCUMSTANCES = ("code", "package_code", "packages", "hardware", "data", "python", "environment")


@dataclass(frozen=True)
class Reproduction:
    """A re-run that gave the same weights.

    :param original_run_id: run that was repeated
    :param result: the re-run
    :param differences: circumstances that differ nevertheless, one line each
    """

    original_run_id: str
    result: TrainingResult
    differences: list[str]


def reproduce(
    client: MlflowClient,
    run_id: str,
    *,
    base_dir: Path | None = None,
    progress: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run a tracked run again under the same seed and number of threads, as a run of its own.

    :param client: client of the store that holds the run
    :param run_id: id of the run
    :param base_dir: directory to which the paths of its configuration are relative, when the data has moved
    :param progress: show a progress bar
    :param report: called with one line for each circumstance that differs, before the re-run starts
    :raises ReproductionError: when the run cannot be re-run or the final weights differ
    """
    record = read_record(client, run_id)
    config = _config_of(record, base_dir)
    original = client.get_run(run_id)
    experiment = client.get_experiment(original.info.experiment_id)
    name = f"{original.info.run_name}-reproduced"
    with MlflowTracker(client, experiment.name, name) as tracker:
        tracker.set_tags({REPRODUCES_TAG: run_id})

        def compare_identity(identity: RunIdentity, seeds: SeedTree) -> None:
            differences.extend(identity_differences(record.identity, identity.as_dict()))
            for line in differences:
                report(line)

        differences: list[str] = []
        result = train(config, tracker, progress=progress, on_identity=compare_identity)
        same = result.weights_sha256 == record.weights_sha256
        tracker.set_tags({REPRODUCED_TAG: str(same).lower()})
    if not same:
        raise ReproductionError(_failure(record, result, differences))
    return Reproduction(run_id, result, differences)


def identity_differences(original: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Compare the circumstances of two runs.

    :param original: identity as plain data
    :param now: identity as plain data
    :return: one line ``key: original -> now`` for each difference
    """
    before, after = (flatten({key: identity.get(key) for key in _CIRCUMSTANCES}) for identity in (original, now))
    return [
        f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _config_of(record: RunRecord, base_dir: Path | None) -> RunConfig:
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "config.yml"
        path.write_text(record.config_text, encoding="utf-8")
        config = load_config(path, base_dir=base_dir or record.base_dir)
    # Sums over threads depend on their number, so the number is part of what is repeated.
    return config.model_copy(update={"torch_num_threads": int(record.identity["hardware"]["torch_threads"])})


def _failure(record: RunRecord, result: TrainingResult, differences: list[str]) -> str:
    lines = [
        f"run {record.run_id} is not reproduced: weights_sha256 was {record.weights_sha256[:16]}, "
        f"is {result.weights_sha256[:16]} (re-run {result.run_id})"
    ]
    if len(record.records) != len(result.records):
        lines.append(f"{len(record.records)} environments against {len(result.records)}")
    for i, (before, after) in enumerate(zip(record.records, result.records, strict=False)):
        try:
            before.verify(after, f"environment {i}")
        except ReproductionError as error:
            lines.append(str(error))
    lines.append("differing circumstances: " + ("; ".join(differences) or "none, so look for unseeded randomness"))
    return "; ".join(lines)
