"""Settings of prioritized replay and the annealing of its importance weights."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch as th

from sb3_webscale.errors import InvalidInputError

__all__ = [
    "BatchFollower",
    "FeedbackWatch",
    "Prioritization",
    "ProgressWatch",
    "SampledBatch",
    "as_array",
    "as_ids",
    "checked_boost",
    "checked_td_errors",
]

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
    :param temperature: share of uniform sampling t, in [0, 1]: P = (1 - t) * P_priority + t / N
    :param warmup_fraction: fraction of training, in [0, 1), that samples uniformly (exponent 0) while priorities gather
    :param alpha_ramp_fraction: fraction of training after that, in which the exponent grows from 0 to ``alpha``
    :param td_clip: TD errors above it count as this much, or None for no bound
    :param new_priority: priority of new transitions: ``"max_stored"``, the largest of those now stored, or
        ``"max_ever"``, the largest that feedback ever set
    :raises InvalidInputError: when a value is out of its range
    """

    alpha: float = 0.6
    beta_start: float = 0.4
    beta_end: float = 1.0
    beta_steps: int | None = None
    epsilon: float = 1e-6
    temperature: float = 0.0
    warmup_fraction: float = 0.0
    alpha_ramp_fraction: float = 0.0
    td_clip: float | None = None
    new_priority: str = "max_stored"

    # Each change of the exponent re-derives the mass of every transition, so a ramp is a staircase.
    ramp_steps: ClassVar[int] = 20

    def __post_init__(self) -> None:
        for name in ("alpha", "beta_start", "beta_end", "temperature"):
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
        self._check_schedule()
        if self.td_clip is not None and not 0.0 < self.td_clip <= _MAX_TD_ERROR:
            msg = f"td_clip is {self.td_clip}, but must be positive and at most {_MAX_TD_ERROR}, or None for no bound"
            raise InvalidInputError(msg)
        if self.new_priority not in ("max_stored", "max_ever"):
            msg = f"new_priority is {self.new_priority!r}, but must be 'max_stored' or 'max_ever'"
            raise InvalidInputError(msg)

    def _check_schedule(self) -> None:
        warmup, ramp = self.warmup_fraction, self.alpha_ramp_fraction
        if not (0.0 <= warmup < 1.0 and 0.0 <= ramp <= 1.0 and warmup + ramp <= 1.0):
            msg = (
                f"warmup_fraction is {warmup} and alpha_ramp_fraction {ramp}, but both are parts of the training: "
                "neither may be negative, nor their sum above 1, and some of it must be left to sample by priority"
            )
            raise InvalidInputError(msg)

    @property
    def scheduled(self) -> bool:
        """Whether the exponent changes in the course of training."""
        return self.warmup_fraction > 0.0 or self.alpha_ramp_fraction > 0.0

    @property
    def ceiling(self) -> float:
        """Largest priority that a TD error gives."""
        return math.inf if self.td_clip is None else self.td_clip + self.epsilon

    def alpha_at(self, progress: float) -> float:
        """
        :param progress: fraction of training done, in [0, 1]
        :return: the exponent then: 0 in the warm-up, and in the ramp one of ``ramp_steps`` equal steps below ``alpha``
        """
        warmup, ramp = self.warmup_fraction, self.alpha_ramp_fraction
        if progress < warmup:
            return 0.0
        if progress >= warmup + ramp:
            return self.alpha
        # The tolerance: at the start of a step, rounding must not fall back to the one before.
        return self.alpha * math.floor((progress - warmup) / ramp * self.ramp_steps + 1e-9) / self.ramp_steps

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


class _SamplingWatch:
    """Warns once when a prioritized buffer is sampled again and again without being told something it needs."""

    patience: ClassVar[int] = 100
    complaint: ClassVar[str]

    def __init__(self) -> None:
        self._waiting = 0
        self._warned = False

    def sampled(self) -> None:
        """Note one sampled batch."""
        self._waiting += 1
        if self._waiting >= self.patience and not self._warned:
            self._warned = True
            warnings.warn(f"{self.patience} batches were sampled by priority, but {self.complaint}", stacklevel=4)


class FeedbackWatch(_SamplingWatch):
    """Watches for TD errors."""

    complaint = (
        "no TD error came back, so priorities stay as they were: pass callback=PriorityFeedback() to learn(), or call "
        "update_priorities() after each update"
    )

    def fed(self) -> None:
        """Note that TD errors came back."""
        self._waiting = 0


class ProgressWatch(_SamplingWatch):
    """Watches for the progress of training, without which a warm-up never ends."""

    complaint = (
        "no progress of training was reported, so the exponent stays where the warm-up starts: pass "
        "callback=PriorityFeedback() to learn(), or call set_progress() as training goes on"
    )

    def reported(self) -> None:
        """Note that progress is being reported; how often is the caller's choice."""
        self._warned = True


def as_array(values: Any) -> npt.NDArray[Any]:
    """
    :param values: tensor on any device, array or sequence
    :return: the same as an array
    """
    if not isinstance(values, th.Tensor):
        return np.asarray(values)
    return values.numpy() if values.is_cpu and not values.requires_grad else values.detach().cpu().numpy()


def as_ids(ids: Any) -> npt.NDArray[np.int64]:
    """
    :param ids: integers, tensor or array
    :return: int64, one axis
    """
    array = as_array(ids)
    if array.ndim == 1 and array.dtype == np.int64 and array.flags.c_contiguous:
        return array
    return np.ascontiguousarray(array, dtype=np.int64).reshape(-1)


def checked_boost(boost: float) -> float:
    """
    :param boost: factor for priorities
    :return: the same
    :raises InvalidInputError: when it is not a finite number of at least 1
    """
    if not 1.0 <= boost < math.inf:
        msg = (
            f"boost is {boost}, but must be finite and at least 1, such as 1.5: it multiplies priorities, and only "
            "update_priorities() lowers them"
        )
        raise InvalidInputError(msg)
    return float(boost)


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
