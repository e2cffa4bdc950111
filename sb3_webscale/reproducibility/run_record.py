"""What a run leaves in the tracking store so that it can be re-run and compared: names, writing, reading."""

from __future__ import annotations

import json
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sb3_webscale.errors import ReproductionError
from sb3_webscale.reproducibility.deterministic_env import EnvironmentRecord
from sb3_webscale.reproducibility.parameters import flatten

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from sb3_webscale.reproducibility.identity import RunIdentity
    from sb3_webscale.reproducibility.seeding import SeedTree
    from sb3_webscale.reproducibility.tracking import MlflowTracker

__all__ = ["RunRecord", "log_identity", "log_records", "read_record"]

CONFIG_FILE = "identity/config.yml"
IDENTITY_FILE = "identity/identity.json"
SEEDS_FILE = "identity/seeds.json"
PATCH_FILE = "identity/{name}.patch"
RECORDS_FILE = "environment_records.npz"
RECORDS_DIRECTORY = "identity"
WEIGHTS_TAG = "webscale.weights_sha256"
BASE_DIR_TAG = "webscale.config_base_dir"
CONFIG_TAG = "webscale.config_sha256"
REPRODUCES_TAG = "webscale.reproduces"
REPRODUCED_TAG = "webscale.reproduced"


class _Configuration(Protocol):
    """What is recorded of a configuration."""

    @property
    def env_id(self) -> str: ...
    @property
    def block(self) -> dict[str, Any]: ...
    @property
    def base_dir(self) -> Path: ...
    def as_yaml(self) -> str: ...


class RunRecord:
    """What the store holds about a finished run.

    :param run_id: id of the run
    :param base_dir: directory to which the paths of its configuration are relative
    :param config_text: its configuration file
    :param identity: its identity as plain data
    :param weights_sha256: hash of its final weights
    :param records: what each of its environments took and gave
    """

    def __init__(
        self,
        run_id: str,
        base_dir: Path,
        config_text: str,
        identity: dict[str, Any],
        weights_sha256: str,
        records: list[EnvironmentRecord],
    ) -> None:
        self.run_id = run_id
        self.base_dir = base_dir
        self.config_text = config_text
        self.identity = identity
        self.weights_sha256 = weights_sha256
        self.records = records


def log_identity(tracker: MlflowTracker, identity: RunIdentity, config: _Configuration, seeds: SeedTree) -> None:
    """Write all that is known before the first step.

    Parameters are what users compare (the configuration); tags are the circumstances; whole documents are files.
    """
    document = config.as_yaml()
    tracker.log_params(flatten({"env_id": config.env_id, **config.block}))
    facts = identity.as_dict()
    tags = flatten({key: facts[key] for key in ("hardware", "code", "package_code", "data", "environment", "python")})
    tags |= flatten({"package": identity.packages})
    tags[BASE_DIR_TAG] = str(config.base_dir)
    tags[CONFIG_TAG] = sha256(document.encode()).hexdigest()
    tracker.set_tags(tags)
    tracker.log_text(document, CONFIG_FILE)
    tracker.log_json(facts, IDENTITY_FILE)
    tracker.log_json(seeds.as_dict(), SEEDS_FILE)
    for name, code in (("code", identity.code), ("package_code", identity.package_code)):
        if code is not None and code.dirty:
            # A patch may hold bytes that are no UTF-8; git reads them back only unchanged.
            with tempfile.TemporaryDirectory() as temporary:
                path = Path(temporary) / Path(PATCH_FILE.format(name=name)).name
                path.write_bytes(code.patch_document.encode("utf-8", "surrogateescape"))
                tracker.log_file(path, RECORDS_DIRECTORY)


def log_records(tracker: MlflowTracker, records: list[EnvironmentRecord], weights_sha256: str) -> None:
    """Write what a re-run is compared with: the hash of the weights, and the record of each environment."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / RECORDS_FILE
        arrays = {f"digests_{i}": record.digests for i, record in enumerate(records)}
        arrays |= {f"seeds_{i}": np.array(record.seeds, dtype=np.uint64) for i, record in enumerate(records)}
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
        tracker.log_file(path, RECORDS_DIRECTORY)
    tags = {f"webscale.environment_{i}.digest": record.digest for i, record in enumerate(records)}
    tracker.set_tags({WEIGHTS_TAG: weights_sha256, **tags})


def read_record(client: MlflowClient, run_id: str) -> RunRecord:
    """Read back what :func:`log_identity` and :func:`log_records` wrote.

    :param client: client of the store
    :param run_id: id of the run
    :raises ReproductionError: when the run does not exist, did not finish, or was recorded by something else
    """
    from mlflow.exceptions import MlflowException

    try:
        tags = client.get_run(run_id).data.tags
    except MlflowException as error:
        msg = f"run_id = {run_id!r} is not in {client.tracking_uri}; see: sb3-webscale runs list"
        raise ReproductionError(msg) from error
    if WEIGHTS_TAG not in tags or BASE_DIR_TAG not in tags:
        msg = (
            f"run_id = {run_id!r} has no tag {WEIGHTS_TAG}: it did not finish, or sb3-webscale did not make it; "
            "choose a finished run from: sb3-webscale runs list"
        )
        raise ReproductionError(msg)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(client.download_artifacts(run_id, RECORDS_DIRECTORY, temporary))
            return RunRecord(
                run_id,
                Path(tags[BASE_DIR_TAG]),
                (root / Path(CONFIG_FILE).name).read_text(encoding="utf-8"),
                json.loads((root / Path(IDENTITY_FILE).name).read_text(encoding="utf-8")),
                tags[WEIGHTS_TAG],
                _read_environment_records(root / RECORDS_FILE),
            )
    except (MlflowException, OSError) as error:
        msg = f"run_id = {run_id!r}: its files cannot be read ({error}); restore the artifacts of the store"
        raise ReproductionError(msg) from error


def _read_environment_records(path: Path) -> list[EnvironmentRecord]:
    with np.load(path, allow_pickle=False) as arrays:
        count = sum(name.startswith("digests_") for name in arrays.files)
        return [
            EnvironmentRecord(tuple(int(seed) for seed in arrays[f"seeds_{i}"]), arrays[f"digests_{i}"])
            for i in range(count)
        ]
