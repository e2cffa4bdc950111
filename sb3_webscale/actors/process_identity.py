"""Which process is meant, and whether it still lives."""

from __future__ import annotations

import os

import psutil

__all__ = ["is_alive", "pid_of", "this_process"]

_TIME_BITS = 32
_TIMES = 1 << _TIME_BITS


def this_process() -> int:
    """:return: the calling process as one number: its id, and when it started, since ids are reused"""
    return (os.getpid() << _TIME_BITS) | _started(psutil.Process())


def pid_of(process: int) -> int:
    """
    :param process: as :func:`this_process` returned it, or 0
    :return: its id, or 0
    """
    return process >> _TIME_BITS


def is_alive(process: int) -> bool:
    """
    :param process: as :func:`this_process` returned it, on the same machine
    :return: whether it runs; false for one that ended and was not waited for, and for 0
    """
    if process == 0:
        return False
    try:
        found = psutil.Process(pid_of(process))
        apart = (_started(found) - process) % _TIMES
        return bool(found.status() != psutil.STATUS_ZOMBIE) and min(apart, _TIMES - apart) <= 1
    except psutil.Error:
        return False


def _started(process: psutil.Process) -> int:
    """Hundredths of a second, of which the lowest bits are enough."""
    return int(process.create_time() * 100) % _TIMES
