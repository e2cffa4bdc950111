"""The actor's side of a channel: add steps as to a replay buffer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from gymnasium import spaces

from sb3_webscale import _native
from sb3_webscale.actors.process_identity import is_alive, pid_of, this_process
from sb3_webscale.buffers.native_storage import transition_format
from sb3_webscale.buffers.spaces import action_layout, observation_layouts
from sb3_webscale.buffers.step_arrays import StepConverter
from sb3_webscale.errors import ActorError

__all__ = ["ActorHandle", "ActorWriter"]

# How long a wait for room lasts before the learner's pulse is felt and signals are handled.
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class ActorHandle:
    """All that an actor process needs to attach; pickles, for processes started in any way on the same machine.

    :param name: of the shared memory
    :param observation_space: space of the environments
    :param action_space: space of the environments
    :param n_envs: environments that the actor steps together
    :param records: steps that the channel holds
    :param handle_timeouts: whether time limits are told apart
    :param check_finite: whether NaN and infinite values are refused
    """

    name: str
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    n_envs: int
    records: int
    handle_timeouts: bool
    check_finite: bool


class ActorWriter:
    """Attaches to a channel and adds to it, from one thread of one process at a time.

    A step is in the channel or not, never in part: an actor that is killed loses at most the step it was adding. Its
    successor attaches with the same handle.

    :param handle: from :attr:`ActorFeed.handles`
    :raises ActorError: when the learner has closed the channel or died, or another living process writes to it
    """

    def __init__(self, handle: ActorHandle) -> None:
        self._handle = handle
        layouts = observation_layouts(handle.observation_space)
        actions = action_layout(handle.action_space)
        try:
            self._channel = _native.TransitionChannel.attach(
                handle.name, transition_format(layouts, actions), handle.n_envs, handle.records
            )
        except RuntimeError as error:
            msg = (
                f"the channel {handle.name} cannot be attached ({error}): its ActorFeed is closed, or its process ended"
            )
            raise ActorError(msg) from error
        self._converter = StepConverter(layouts, actions, handle.n_envs, handle.check_finite)
        self._check_learner()
        previous = self._channel.writer
        if (is_alive(previous) and previous != this_process()) or not self._channel.claim(previous, this_process()):
            msg = (
                f"the channel {handle.name} has a writer, process {pid_of(self._channel.writer)}, which is alive: give "
                "each actor a handle of its own"
            )
            raise ActorError(msg)

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: Any,
        reward: Any,
        done: Any,
        infos: Any,
        *,
        timeout: float | None = None,
    ) -> None:
        """Hand one step of the actor's environments to the learner; arguments as ``ReplayBuffer.add``.

        While the channel is full this waits, asleep and without the interpreter's lock, for the learner to drain it.

        :param timeout: seconds to wait at most; None waits as long as the learner lives
        :raises DataError: when a value is NaN or infinite, or a shape is wrong; nothing is added then
        :raises ActorError: when the learner closed the channel or died, or there was no room in time; nothing is added
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        handled, check = self._handle.handle_timeouts, self._handle.check_finite
        written = self._channel.try_write_step(
            obs, next_obs, action, reward, done, infos, handled, check, self._patience(deadline)
        )
        if written:
            return
        # Of another type or shape, or wrong, or there was no room: convert it, or say what is wrong.
        steps = self._converter.convert(obs, next_obs, action, reward, done, self._converter.timeouts(infos, handled))
        found = self._channel.find_bad_observation(*steps) if check else None
        if found is not None:
            raise self._converter.non_finite(found, obs, next_obs)
        while written is None or not written:
            if written is not None:
                self._check_learner()
                if deadline is not None and time.monotonic() >= deadline:
                    msg = (
                        f"no room in the channel {self._handle.name} within {timeout} seconds: the learner must call "
                        f"ActorFeed.drain() more often, or give the feed more than {self._handle.records} records"
                    )
                    raise ActorError(msg)
            written = self._channel.write_step(*steps, self._patience(deadline))

    @staticmethod
    def _patience(deadline: float | None) -> float:
        return _LOOK_SECONDS if deadline is None else min(max(deadline - time.monotonic(), 0.0), _LOOK_SECONDS)

    def _check_learner(self) -> None:
        if self._channel.closed:
            msg = f"the channel {self._handle.name} was closed by the learner: stop acting"
            raise ActorError(msg)
        learner = self._channel.reader
        if not is_alive(learner):
            msg = f"the learner, process {pid_of(learner)}, is gone and nobody drains the channel: stop acting"
            raise ActorError(msg)

    @property
    def closed(self) -> bool:
        """Whether the learner takes no more steps."""
        return self._channel.closed

    @property
    def pending(self) -> int:
        """Steps that the learner has not taken yet."""
        return self._channel.written - self._channel.taken
