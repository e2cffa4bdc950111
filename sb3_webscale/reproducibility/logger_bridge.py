"""From Stable-Baselines3's logger to a tracker."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.logger import KVWriter

from sb3_webscale.reproducibility.tracking import Tracker

__all__ = ["TrackerOutput"]


class TrackerOutput(KVWriter):
    """Writes every number that the algorithm logs to the tracker, at its environment step.

    :param tracker: tracker of the run
    """

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Send the numbers of one dump; texts and images have no place on a curve."""
        numbers = {
            key: float(value)
            for key, value in key_values.items()
            if isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        }
        self.tracker.log_metrics(numbers, step)

    def close(self) -> None:
        """The tracker is closed by the run, not by the logger."""
