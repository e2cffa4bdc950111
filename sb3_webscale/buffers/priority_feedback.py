"""Prioritized replay for stock SB3 algorithms: importance weights into the loss, TD errors back out.

SB3's algorithms neither return TD errors nor take importance weights. Both pass through one place: the gradient of the
loss with respect to the critic's output. For a loss that is a mean over the batch of a function of (output - target),
row i of that gradient is proportional to the TD error of transition i (clipped to 1 by a Huber loss), and scaling it
by w_i is exactly what weighting transition i's loss by w_i does to every parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch as th
from stable_baselines3 import TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from torch.utils.hooks import RemovableHandle

from sb3_webscale.buffers.algorithm_agreement import sampling_algorithm
from sb3_webscale.buffers.native_replay import NativeReplayBuffer
from sb3_webscale.buffers.prioritization import SampledBatch
from sb3_webscale.errors import ConfigError

__all__ = ["PriorityFeedback"]


class PriorityFeedback(BaseCallback):
    """Callback that makes ``prioritized=True`` effective in ``learn()``.

    For each sampled batch it hooks the next pass through the critic (``q_net``, ``quantile_net`` or ``critic``) that
    leads to a loss. The TD error
    handed back is the mean over critics of |Q - target| for DQN (clipped at 1 by its Huber loss), SAC, TD3, DDPG and
    CrossQ. For QR-DQN and TQC it is the mean over quantiles (and critics) of the slope of the quantile Huber loss. The
    actor's update is untouched.

    It also tells the buffer how far training is, which moves beta.
    """

    def __init__(self) -> None:
        super().__init__()
        self._link: _CriticLink | None = None

    def _on_training_start(self) -> None:
        buffer = _native_buffer(self.model)
        if not buffer.prioritized:
            msg = (
                f"PriorityFeedback has nothing to do, since the model's {type(buffer).__name__} samples uniformly: "
                "write replay_buffer_kwargs=dict(prioritized=True), or leave the callback out"
            )
            raise ConfigError(msg)

    def _on_step(self) -> bool:
        return True

    # Between the end of a rollout and the start of the next, SB3 trains; batches are followed only then.
    def _on_rollout_end(self) -> None:
        _native_buffer(self.model).set_progress(1.0 - self.model._current_progress_remaining)
        self._follow(self.model)

    def _on_rollout_start(self) -> None:
        self._release()

    def _on_training_end(self) -> None:
        self._release()

    def _follow(self, model: BaseAlgorithm) -> None:
        self._release()
        self._link = _CriticLink(model, _native_buffer(model), in_training_only=True)

    def _release(self) -> None:
        if self._link is not None:
            self._link.release()
            self._link = None

    @classmethod
    @contextmanager
    def attached(cls, model: BaseAlgorithm) -> Iterator[None]:
        """For training without ``learn()``: ``with PriorityFeedback.attached(model): model.train(...)``.

        :param model: off-policy algorithm with a prioritized buffer of this package
        :raises ConfigError: when the algorithm has no such buffer or critic
        """
        link = _CriticLink(model, _native_buffer(model), in_training_only=False)
        try:
            yield
        finally:
            link.release()


def _native_buffer(model: BaseAlgorithm) -> NativeReplayBuffer:
    buffer = getattr(model, "replay_buffer", None)
    if not isinstance(buffer, NativeReplayBuffer):
        msg = (
            f"PriorityFeedback needs a replay buffer of sb3_webscale, but {type(model).__name__} has "
            f"{type(buffer).__name__}: write replay_buffer_class=WebscaleReplayBuffer"
        )
        raise ConfigError(msg)
    return buffer


class _CriticLink:
    """Ties one buffer's batches to one critic. A buffer has one link; a new one takes an older one's place.

    The hook lives only from the sampling of a batch to the pass that uses it: after an exception in training nobody
    would take it away.
    """

    def __init__(self, model: BaseAlgorithm, buffer: NativeReplayBuffer, in_training_only: bool) -> None:
        self._in_training_only = in_training_only
        self._model = model
        self._buffer = buffer
        self._critic = _critic(model)
        self._scale = _td_scale(model)
        self._handle: RemovableHandle | None = None
        if buffer.batch_follower is not None:
            buffer.batch_follower.release()
        buffer.batch_follower = self

    def follow_batch(self) -> None:
        """Hook the next pass; the buffer calls this whenever it has sampled."""
        if self._in_training_only and sampling_algorithm(self._buffer) is not self._model:
            return  # learn() was interrupted, and the script samples for itself
        if self._handle is None:
            self._handle = self._critic.register_forward_hook(self._on_forward)

    def release(self) -> None:
        """Let go of critic and buffer."""
        self._unhook()
        if self._buffer.batch_follower is self:
            self._buffer.batch_follower = None

    def _unhook(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _on_forward(self, critic: th.nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not th.is_grad_enabled():
            return
        if any(isinstance(value, th.Tensor) and value.requires_grad for value in inputs[1:]):
            return  # the actor's pass: its actions carry gradients
        self._unhook()
        batch = self._buffer.last_batch
        if batch is None or getattr(self._model, "replay_buffer", None) is not self._buffer:
            return  # the model was given another buffer since the batch was sampled
        outputs = output if isinstance(output, tuple) else (output,)
        collector = _TdErrorCollector(self._buffer, batch, len(outputs), self._scale)
        for values in outputs:
            values.register_hook(collector.on_gradient)


class _TdErrorCollector:
    """Gathers the TD errors of one batch from the gradients of all critics and weights those gradients."""

    def __init__(self, buffer: NativeReplayBuffer, batch: SampledBatch, n_critics: int, scale: float) -> None:
        self._buffer = buffer
        self._batch = batch
        self._missing = n_critics
        self._scale = scale / n_critics
        self._total: th.Tensor | float = 0.0

    def on_gradient(self, gradient: th.Tensor) -> th.Tensor:
        size = len(self._batch.ids)
        self._total = self._total + gradient[:size].abs().flatten(1).sum(dim=1)
        self._missing -= 1
        if self._missing == 0:
            assert isinstance(self._total, th.Tensor)
            self._buffer.update_priorities(self._batch.ids, self._total * (size * self._scale))
        weights = self._batch.weights
        if len(gradient) == 2 * size:  # CrossQ passes next states through the critic too; no loss hangs on them
            weights = th.cat((weights, weights))
        return gradient * weights.reshape(-1, *[1] * (gradient.dim() - 1))


def _critic(model: BaseAlgorithm) -> th.nn.Module:
    for name in ("q_net", "quantile_net", "critic"):
        critic = getattr(model, name, None)
        if isinstance(critic, th.nn.Module):
            return critic
    msg = f"{type(model).__name__} has no q_net, quantile_net or critic that PriorityFeedback could attach to"
    raise ConfigError(msg)


def _td_scale(model: BaseAlgorithm) -> float:
    """Factor between batch size times the gradient and the TD error, from each algorithm's loss."""
    if isinstance(model, TD3):  # DDPG too: a sum of mean squared errors without the half that SAC has
        return 0.5
    if isinstance(getattr(model, "quantile_net", None), th.nn.Module):  # QR-DQN sums over quantiles
        return 1.0 / float(model.n_quantiles)  # type: ignore[attr-defined]
    return 1.0
