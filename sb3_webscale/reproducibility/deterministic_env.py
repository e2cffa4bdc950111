"""An environment wrapper that fixes the seeds of one environment and records what it gave, step by step."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from sb3_webscale.errors import InvalidInputError, ReproductionError

__all__ = ["DeterministicEnv", "EnvironmentRecord", "collect_records"]

_DIGEST_BYTES = 8


@dataclass(frozen=True)
class EnvironmentRecord:
    """What one environment was seeded with, and a running hash of everything it took and gave.

    :param seeds: seeds given to ``reset``, in order
    :param digests: uint64 (n,), one for each reset and each step; each covers all that came before it, so two
        records agree up to the first difference and nowhere after it
    """

    seeds: tuple[int, ...]
    digests: npt.NDArray[np.uint64]

    @property
    def digest(self) -> str:
        """:return: hash over the whole record, hexadecimal"""
        return f"{int(self.digests[-1]):016x}" if len(self.digests) else ""

    def verify(self, other: EnvironmentRecord, name: str = "environment") -> None:
        """Check that another run did the same.

        :param other: record of the other run
        :param name: which environment this is, for the error message
        :raises ReproductionError: naming the first step that differs
        """
        if self.seeds != other.seeds:
            msg = f"{name}: seeds differ, {self.seeds} against {other.seeds}; run both with the same seed"
            raise ReproductionError(msg)
        shared = min(len(self.digests), len(other.digests))
        different = np.flatnonzero(self.digests[:shared] != other.digests[:shared])
        if len(different) or len(self.digests) != len(other.digests):
            first = int(different[0]) if len(different) else shared
            msg = (
                f"{name}: call {first} is the first that differs (counting resets and steps from 0; "
                f"{len(self.digests)} calls against {len(other.digests)}); until there both runs are equal"
            )
            raise ReproductionError(msg)


class DeterministicEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Seeds the first reset and the spaces, never a later reset, and keeps a record.

    Seeding each reset would play the same episode over and over. An explicit seed given to ``reset`` is respected.

    :param env: environment
    :param seed: seed of the first reset and of the spaces
    :param record: keep the running hash (8 bytes a step)
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int, record: bool = True) -> None:
        super().__init__(env)
        self._first_seed: int | None = seed
        self._record = record
        self._seeds: list[int] = []
        self._digests = array("Q")
        self._hash = blake2b(digest_size=_DIGEST_BYTES)
        self.action_space.seed(seed)
        self.observation_space.seed(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the first one with the wrapper's seed unless another is given."""
        if seed is None:
            seed = self._first_seed
        self._first_seed = None
        if seed is not None:
            self._seeds.append(int(seed))
        observation, info = self.env.reset(seed=seed, options=options)
        if self._record:
            self._note(b"reset", observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Act, and add the action and all that came of it to the record."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._record:
            self._note(b"step", action, observation, float(reward), bool(terminated), bool(truncated))
        return observation, reward, terminated, truncated, info

    def environment_record(self) -> EnvironmentRecord:
        """:return: the record so far"""
        return EnvironmentRecord(tuple(self._seeds), np.array(self._digests, dtype=np.uint64))

    def _note(self, kind: bytes, *values: Any) -> None:
        self._hash.update(kind)
        for value in values:
            _feed(self._hash, value)
        self._digests.append(int.from_bytes(self._hash.digest(), "little"))


def collect_records(vec_env: Any) -> list[EnvironmentRecord]:
    """Fetch the records of a vectorised environment, also across processes.

    :param vec_env: vectorised environment, each member wrapped in :class:`DeterministicEnv`
    :return: one record for each environment
    :raises InvalidInputError: when a member is not wrapped
    """
    try:
        return list(vec_env.env_method("environment_record"))
    except AttributeError as error:
        msg = "vec_env has a member without DeterministicEnv, so there is no record of it; wrap each environment"
        raise InvalidInputError(msg) from error


def _feed(digest: Any, value: Any) -> None:
    """Add a value of any Gymnasium space; shapes and types are fixed by the space, so bytes are enough."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            digest.update(str(key).encode())
            _feed(digest, value[key])
    elif isinstance(value, str):
        digest.update(value.encode())
    elif isinstance(value, Sequence):
        for item in value:
            _feed(digest, item)
    else:
        digest.update(np.ascontiguousarray(value).tobytes())
