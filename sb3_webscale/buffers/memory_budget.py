"""How much memory a buffer may take, and where the rest of it goes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from sb3_webscale.errors import InvalidInputError

__all__ = ["MemoryBudget", "parse_memory_budget"]

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class MemoryBudget:
    """
    :param bytes: that a buffer may hold in memory
    :param spill_dir: directory for what does not fit
    """

    bytes: int
    spill_dir: str


def parse_memory_budget(
    memory_budget: int | str | None, spill_dir: str | os.PathLike[str] | None
) -> MemoryBudget | None:
    """
    :param memory_budget: bytes, or a number with a unit such as ``"2GB"`` or ``"512MiB"``; None for no limit
    :param spill_dir: directory for what does not fit; needed with a budget, and only then
    :return: the budget, or None
    :raises InvalidInputError: when a value is malformed or one comes without the other
    """
    if memory_budget is None:
        if spill_dir is not None:
            msg = f"spill_dir is {str(spill_dir)!r}, but nothing is spilled without a budget: set memory_budget too"
            raise InvalidInputError(msg)
        return None
    if spill_dir is None:
        msg = (
            f"memory_budget is {memory_budget!r}, but spill_dir is None: name a directory on a disk with room for the "
            "rest of the buffer"
        )
        raise InvalidInputError(msg)
    if os.name != "posix":
        msg = f"memory_budget is {memory_budget!r}, but it needs a POSIX system, not {os.name!r}: leave it None"
        raise InvalidInputError(msg)
    return MemoryBudget(_bytes_of(memory_budget), os.path.abspath(os.fspath(spill_dir)))


def _bytes_of(memory_budget: int | str) -> int:
    if isinstance(memory_budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory_budget)
        if match is not None and match[2].upper() in _UNITS:
            return int(float(match[1]) * _UNITS[match[2].upper()])
    elif not isinstance(memory_budget, bool) and isinstance(memory_budget, int) and memory_budget > 0:
        return memory_budget
    msg = f"memory_budget is {memory_budget!r}, but must be a positive number of bytes or a string such as '2GB'"
    raise InvalidInputError(msg)
