"""What the project itself registers, through the same hooks as any plugin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sb3_webscale.data.transitions import Transitions
from sb3_webscale.plugins.marker import hookimpl
from sb3_webscale.plugins.protocols import Curriculum
from sb3_webscale.plugins.registry import Registrar

__all__ = ["UniformCurriculum", "webscale_register_curricula"]


class UniformCurriculum:
    """Every transition counts the same at every point of training."""

    def weights(self, transitions: Transitions, progress: float) -> npt.NDArray[np.float64]:
        """
        :param transitions: a batch of n transitions
        :param progress: share of training done; it does not matter here
        :return: float64 (n,) of ones
        """
        return np.ones(len(transitions), dtype=np.float64)


@hookimpl
def webscale_register_curricula(register: Registrar[Curriculum]) -> None:
    """Register ``uniform``."""
    register.add("uniform", UniformCurriculum())
