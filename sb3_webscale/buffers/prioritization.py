"""Settings of prioritized replay and the annealing of its importance weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch as th

from sb3_webscale.errors import InvalidInputError

__all__ = ["BatchFollower", "FeedbackWatch", "Prioritization", "SampledBatch", "as_array", "checked_td_errors"]

_MAX_TD_ERROR = 1e99


@dataclass(frozen=True)
class Prioritization:
    """Proportional prioritization (Schaul et al., "Prioritized Experience Replay", ICLR 2016).

    :param alpha: exponent of priorities, in [0, 1]; 0 samples uniformly
    :param beta_start: importance-weight exponent at the start of training, in [0, 1]
    :param beta_end: exponent at the end, in [0, 1]
    :param beta_steps: environment steps over which beta moves from start to end, or None for the whole training as
        reported through ``set_progress``
    :param epsilon: added to each TD error, so that no transition becomes impossible to draw
    :raises InvalidInputError: when a value is out of its range
    """

    alpha: float = 0.6
    beta_start: float = 0.4
    beta_end: float = 1.0
    beta_steps: int | None = None
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("alpha", "beta_start", "beta_end"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                msg = f"{name} is {value}, but must lie in [0, 1]: the usual choice is {type(self).__dict__[name]}"
                raise InvalidInputError(msg)
        if not 0.0 < self.epsilon <= _MAX_TD_ERROR:
            msg = f"priority_epsilon is {self.epsilon}, but must lie in (0, 1e99], such as 1e-6"
            raise InvalidInputError(msg)
        if self.beta_steps is not None and self.beta_steps < 1:
            msg = f"beta_steps is {self.beta_steps}, but must be at least 1, or None for the whole training"
            raise InvalidInputError(msg)

    def beta(self, steps: int, progress: float) -> float:
        """
        :param steps: environment steps so far
        :param progress: fraction of training done, in [0, 1]
        :return: the exponent now; it stays at ``beta_end`` once reached
        """
        fraction = progress if self.beta_steps is None else steps / self.beta_steps
        return self.beta_start + (self.beta_end - self.beta_start) * min(max(fraction, 0.0), 1.0)


@dataclass(frozen=True)
class SampledBatch:
    """What priority feedback needs to know about the batch sampled last.

    :param ids: int64 (B,)
    :param weights: float32 (B, 1) on the buffer's device
    """

    ids: npt.NDArray[np.int64]
    weights: th.Tensor


class BatchFollower(Protocol):
    """Who wants to know that a batch was sampled by priority: the link to a critic."""

    def follow_batch(self) -> None: ...

    def release(self) -> None: ...


class FeedbackWatch:
    """Warns once when a prioritized buffer is sampled again and again without getting TD errors back."""

    patience = 100

    def __init__(self) -> None:
        self._waiting = 0
        self._warned = False

    def sampled(self) -> None:
        """Note one sampled batch."""
        self._waiting += 1
        if self._waiting >= self.patience and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.patience} batches were sampled by priority, but no TD error came back, so priorities stay as "
                "they were: pass callback=PriorityFeedback() to learn(), or call update_priorities() after each update",
                stacklevel=4,
            )

    def fed(self) -> None:
        """Note that TD errors came back."""
        self._waiting = 0


def as_array(values: Any) -> npt.NDArray[Any]:
    """
    :param values: tensor on any device, array or sequence
    :return: the same as an array
    """
    return values.detach().cpu().numpy() if isinstance(values, th.Tensor) else np.asarray(values)


def checked_td_errors(td_errors: Any, count: int) -> npt.NDArray[np.float64]:
    """
    :param td_errors: magnitudes of TD errors, tensor or array of ``count`` elements
    :param count: how many ids they belong to
    :return: float64 (count,)
    :raises InvalidInputError: when the count differs, or one is NaN, infinite, negative or above 1e99
    """
    values = as_array(td_errors).astype(np.float64).ravel()
    if len(values) != count:
        msg = f"td_errors has {len(values)} elements, but there are {count} ids: give one TD error for each id"
        raise InvalidInputError(msg)
    bad = np.flatnonzero(~((values >= 0.0) & (values <= _MAX_TD_ERROR)))
    if len(bad):
        msg = (
            f"td_errors[{bad[0]}] is {values[bad[0]]} ({len(bad)} of {count} are bad), but a priority must be finite "
            "and not negative: pass absolute TD errors, and look for a diverged loss if they are NaN. No priority was "
            "changed"
        )
        raise InvalidInputError(msg)
    return values
