"""The machine a run was made on, as far as it can change a result or its speed."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil
import torch

__all__ = ["describe_hardware"]

_GIB = 2**30


def describe_hardware() -> dict[str, Any]:
    """:return: cpu model, cores this process may use, memory, gpu, and the threads and vector units torch uses"""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / _GIB, 1),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "machine": platform.machine(),
        "os": platform.platform(),
        "torch_threads": torch.get_num_threads(),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def _cpu_model() -> str:
    """Linux tells the model only here; elsewhere ``platform`` knows it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
