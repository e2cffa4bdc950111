"""One call that seeds everything a run draws from, and the tree of seeds that it used."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.utils import set_random_seed

from sb3_webscale.errors import InvalidInputError

__all__ = ["SeedTree", "seed_everything"]

_SEEDS = 2**32
_EVALUATION_BRANCH = 1
_OFF_POLICY_BRANCH = 2
# cuBLAS repeats its results only with a fixed workspace, chosen before its first use.
_CUBLAS_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@dataclass(frozen=True)
class SeedTree:
    """Every seed of a run, all derived from one number.

    Environment i gets ``run + i`` and its spaces the same, as Stable-Baselines3 does, so that a run started from
    a configuration equals the plain script with the same ``seed``. The other branches are independent streams.

    :param run: seed of Python's ``random``, NumPy, torch and the algorithm; buffers derive theirs from NumPy's state
    :param environments: seed of the first reset, the action space and the observation space of each environment
    :param evaluation: seed of the environments that the final policy is evaluated in
    :param off_policy_evaluation: seed of the bootstrap of the off-policy estimate
    """

    run: int
    environments: tuple[int, ...]
    evaluation: int
    off_policy_evaluation: int

    @classmethod
    def derive(cls, seed: int, n_envs: int = 1) -> SeedTree:
        """:param seed: from 0 to 2**32 - 1
        :param n_envs: number of training environments
        :raises InvalidInputError: when the seed is outside its range
        """
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < _SEEDS:
            msg = f"seed = {seed!r} must be a whole number from 0 to {_SEEDS - 1}; choose one in that range"
            raise InvalidInputError(msg)
        seed = int(seed)
        return cls(
            run=seed,
            environments=tuple((seed + i) % _SEEDS for i in range(n_envs)),
            evaluation=_branch(seed, _EVALUATION_BRANCH),
            off_policy_evaluation=_branch(seed, _OFF_POLICY_BRANCH),
        )

    def as_dict(self) -> dict[str, Any]:
        """:return: the tree as plain data"""
        return asdict(self) | {"environments": list(self.environments)}

    def __str__(self) -> str:
        environments = ", ".join(f"env {i}: {seed}" for i, seed in enumerate(self.environments))
        return (
            f"run: {self.run} (python, numpy, torch, buffers), {environments} (reset and spaces), "
            f"evaluation: {self.evaluation}, off-policy evaluation: {self.off_policy_evaluation}"
        )


def seed_everything(seed: int, n_envs: int = 1, *, torch_num_threads: int | None = None) -> SeedTree:
    """Seed Python, NumPy and torch (CPU and CUDA), and make torch use deterministic algorithms only.

    Call it before the environments, the buffer and the model are built. An operation of torch that has no
    deterministic form then raises instead of giving another result each time.

    :param seed: from 0 to 2**32 - 1
    :param n_envs: number of training environments
    :param torch_num_threads: threads of torch inside one operation; sums over threads depend on their number
    :return: the seeds in use, to be given to the environments
    :raises InvalidInputError: when the seed is outside its range
    """
    tree = SeedTree.derive(seed, n_envs)
    if torch_num_threads is not None:
        torch.set_num_threads(torch_num_threads)
    if torch.cuda.is_available():
        _fix_cublas_workspace()
    set_random_seed(tree.run, using_cuda=torch.cuda.is_available())
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    return tree


def _branch(seed: int, branch: int) -> int:
    return int(np.random.SeedSequence([seed, branch]).generate_state(1)[0])


def _fix_cublas_workspace() -> None:
    name, value = _CUBLAS_WORKSPACE
    if os.environ.setdefault(name, value) not in (value, ":16:8"):
        msg = f"{name} = {os.environ[name]!r} does not repeat results on CUDA; set it to {value} or :16:8"
        warnings.warn(msg, stacklevel=3)
