"""The learner's side of the channels: one for each actor, drained into a replay buffer."""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import TracebackType

from sb3_webscale import _native
from sb3_webscale.actors.actor_writer import ActorHandle
from sb3_webscale.actors.process_identity import is_alive, pid_of, this_process
from sb3_webscale.buffers.native_storage import transition_format
from sb3_webscale.buffers.sharded_replay import ShardedReplayBuffer
from sb3_webscale.buffers.spaces import action_layout, observation_layouts
from sb3_webscale.errors import ActorError, InvalidInputError

__all__ = ["ActorFeed", "ActorStatus"]


@dataclass(frozen=True)
class ActorStatus:
    """How one actor is doing.

    :param attached: whether a process ever attached to the channel
    :param alive: whether the process that attached last still runs
    :param pid: its id, or 0
    :param added: steps that actors ever put into this channel
    :param pending: those that are still in it
    """

    attached: bool
    alive: bool
    pid: int
    added: int
    pending: int


class ActorFeed:
    """Takes what actor processes add into the streams of a buffer.

    Each actor has a channel: a ring of whole steps in shared memory with one writer and one reader, which share no
    lock. An actor that dies at any moment loses at most the step it was adding. When another process takes its place,
    the episodes that were cut off count as truncated where they stop.

    The shared memory is removed by :meth:`close`, when this object or its process ends, and if the process is killed by
    Python's resource tracker.

    :param buffer: has ``actor_streams`` equal to the environments of all actors together; actor 0 writes the first
    :param envs_per_actor: environments that each actor steps together; a number for each actor
    :param records: steps that each channel holds before its actor must wait
    :raises InvalidInputError: when the numbers do not fit
    :raises ActorError: when there is no room for the shared memory
    """

    def __init__(self, buffer: ShardedReplayBuffer, envs_per_actor: Sequence[int], records: int = 256) -> None:
        if sum(envs_per_actor) != buffer.actor_streams or min(envs_per_actor, default=0) < 1 or records < 1:
            msg = (
                f"envs_per_actor is {list(envs_per_actor)} and records {records}, but each actor must have an "
                f"environment or more, in all the buffer's actor_streams={buffer.actor_streams}, and 1 record or more"
            )
            raise InvalidInputError(msg)
        self._buffer = buffer
        self._channels: list[_native.TransitionChannel] = []
        self._handles: list[ActorHandle] = []
        self._first_streams = [buffer.n_envs + sum(envs_per_actor[:actor]) for actor in range(len(envs_per_actor))]
        self._names: list[str] = []
        self._finalizer = weakref.finalize(self, _remove, self._names, self._channels, os.getpid())
        form = transition_format(observation_layouts(buffer.observation_space), action_layout(buffer.action_space))
        for n_envs in envs_per_actor:
            name = f"/webscale-{secrets.token_hex(8)}"
            # Registered first, so that no kill can come between.
            resource_tracker.register(name, "shared_memory")
            self._names.append(name)
            try:
                channel = _native.TransitionChannel.create(name, form, n_envs, records)
            except RuntimeError as error:
                self.close()
                msg = f"{error}: take fewer records than {records}, or make room for shared memory (/dev/shm)"
                raise ActorError(msg) from error
            channel.set_reader(this_process())
            self._channels.append(channel)
            rules = buffer.handle_timeout_termination, buffer.check_finite
            self._handles.append(
                ActorHandle(name, buffer.observation_space, buffer.action_space, n_envs, records, *rules)
            )

    @property
    def handles(self) -> list[ActorHandle]:
        """One for each actor, to be passed to its process."""
        return list(self._handles)

    def drain(self, limit: int | None = None) -> int:
        """Move steps from the channels into the buffer. One thread may drain while others sample.

        :param limit: steps taken from each channel at most; None takes all that are there now
        :return: number of transitions moved
        :raises ActorError: when the feed is closed
        """
        if not self._finalizer.alive:
            msg = "this ActorFeed is closed: make another one"
            raise ActorError(msg)
        moved = 0
        for channel, handle, first in zip(self._channels, self._handles, self._first_streams, strict=True):
            steps = channel.drain(self._buffer._sharded, first, handle.records if limit is None else limit)
            moved += steps * handle.n_envs
        return moved

    def status(self) -> list[ActorStatus]:
        """:return: one entry for each actor"""
        found = []
        for channel in self._channels:
            writer = channel.writer
            found.append(
                ActorStatus(
                    writer != 0, is_alive(writer), pid_of(writer), channel.written, channel.written - channel.taken
                )
            )
        return found

    def dead_actors(self) -> list[int]:
        """:return: numbers of the actors whose process attached and has ended"""
        return [actor for actor, status in enumerate(self.status()) if status.attached and not status.alive]

    def close(self) -> None:
        """Tell the actors to stop and remove the shared memory. Steps that were not drained are lost."""
        self._finalizer()

    def __enter__(self) -> ActorFeed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _remove(names: list[str], channels: list[_native.TransitionChannel], owner: int) -> None:
    if os.getpid() != owner:  # a forked actor that drops its copy
        return
    for channel in channels:
        channel.close()
    for name in names:
        _native.TransitionChannel.unlink(name)
        resource_tracker.unregister(name, "shared_memory")
