"""The identity of a run: all that must be equal for two runs to give the same weights."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium as gym

import sb3_webscale
from sb3_webscale.reproducibility.code_version import CodeVersion, code_version
from sb3_webscale.reproducibility.hardware import describe_hardware

__all__ = ["RunIdentity", "describe_environment", "identify", "package_versions"]

_PACKAGES = (
    "ale-py",
    "gymnasium",
    "mlflow",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "sb3-contrib",
    "sb3-webscale",
    "sb3-webscale-recsys",
    "scikit-learn",
    "stable-baselines3",
    "torch",
)


@dataclass(frozen=True)
class RunIdentity:
    """What a run is.

    :param algorithm: name of the algorithm
    :param environment: id, entry point, arguments, and the distribution that provides it with its version
    :param hyperparameters: the configuration as plain data
    :param seed: seed of the run
    :param hardware: see :func:`~sb3_webscale.reproducibility.hardware.describe_hardware`
    :param code: repository of the working directory
    :param package_code: repository that this package itself is imported from, when that is another one
    :param data: fingerprint of every log that the run reads, by its key in the configuration
    :param packages: versions of the installed distributions that can change a result
    :param python: version and implementation of Python
    """

    algorithm: str
    environment: dict[str, Any]
    hyperparameters: dict[str, Any]
    seed: int
    hardware: dict[str, Any]
    code: CodeVersion
    package_code: CodeVersion | None
    data: dict[str, str]
    packages: dict[str, str]
    python: str

    def as_dict(self) -> dict[str, Any]:
        """:return: the identity as plain data, without the text of the patch"""
        return {
            "algorithm": self.algorithm,
            "environment": self.environment,
            "hyperparameters": self.hyperparameters,
            "seed": self.seed,
            "hardware": self.hardware,
            "code": self.code.as_dict(),
            "package_code": self.package_code.as_dict() if self.package_code else None,
            "data": self.data,
            "packages": self.packages,
            "python": self.python,
        }


def identify(
    *,
    algorithm: str,
    env_id: str,
    hyperparameters: Mapping[str, Any],
    seed: int,
    data: Mapping[str, str],
    directory: Path | None = None,
    packages: Iterable[str] = (),
) -> RunIdentity:
    """Collect the identity of a run that is about to start.

    :param algorithm: name of the algorithm
    :param env_id: registered Gymnasium id
    :param hyperparameters: the configuration as plain data
    :param seed: seed of the run
    :param data: fingerprint of every log that the run reads
    :param directory: directory of the project; the working directory by default
    :param packages: distributions to record besides those that are always recorded
    """
    code = code_version(directory or Path.cwd())
    package_code = code_version(Path(sb3_webscale.__file__).parent)
    environment = describe_environment(env_id)
    provider = [environment["distribution"]] if environment["distribution"] else []
    return RunIdentity(
        algorithm=algorithm,
        environment=environment,
        hyperparameters=dict(hyperparameters),
        seed=seed,
        hardware=describe_hardware(),
        code=code,
        package_code=package_code if package_code.root not in (None, code.root) else None,
        data=dict(data),
        packages=package_versions([*_PACKAGES, *provider, *packages]),
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """:return: version of each named distribution that is installed, sorted by name"""
    versions = {"sb3-webscale": sb3_webscale.__version__}
    for name in sorted(set(names)):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(versions.items()))


def describe_environment(env_id: str) -> dict[str, Any]:
    """Say what an environment id stands for here.

    :param env_id: registered Gymnasium id
    :return: id, entry point, step limit, arguments, and the distribution that provides it with its version
    """
    spec = gym.spec(env_id)
    entry_point = spec.entry_point
    entry = entry_point if isinstance(entry_point, str) else f"{entry_point.__module__}:{entry_point.__qualname__}"  # type: ignore[union-attr]
    distribution = _distribution_of(entry.partition(".")[0].partition(":")[0])
    return {
        "id": env_id,
        "entry_point": entry,
        "max_episode_steps": spec.max_episode_steps,
        "kwargs": {key: repr(value) for key, value in spec.kwargs.items()},
        "distribution": distribution,
        "version": metadata.version(distribution) if distribution else None,
    }


def _distribution_of(package: str) -> str | None:
    found = metadata.packages_distributions().get(package)
    return found[0] if found else None
