"""The native replay as plain arrays, for pickles; versioned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sb3_webscale import _native
from sb3_webscale.buffers.saved_frames import SavedFrames

__all__ = ["FORMAT", "native_state", "restore_native"]

FORMAT = 1


def native_state(replay: _native.Replay, n_columns: int, n_envs: int) -> dict[str, Any]:
    """
    :param replay: the replay to save
    :param n_columns: observation arrays that it holds
    :param n_envs: environments that it serves
    :return: integers and arrays, and what pickles as lists of arrays. Frames share the ring's chunks and files, which
        never change while somebody holds them; everything else is small and copied
    """
    filled = replay.filled_slots
    state: dict[str, Any] = {
        "steps": replay.steps,
        "first_step": replay.first_step,
        "actions": replay.actions[:filled].copy(),
        "rewards": replay.rewards[:filled].copy(),
        "dones": replay.dones[:filled].copy(),
        "timeouts": replay.timeouts[:filled].copy(),
        "columns": [
            {
                "references": replay.references(column).copy(),
                "streams": [
                    {
                        "begin": replay.stream_begin(column, env),
                        "frames": SavedFrames(replay.stream_frames(column, env)),
                    }
                    for env in range(n_envs)
                ],
            }
            for column in range(n_columns)
        ],
    }
    if replay.prioritized:
        seed, counter = replay.generator
        state["priorities"] = {
            "alpha": replay.alpha,
            "temperature": replay.temperature,
            "raw": replay.stored_priorities.copy(),
            "max_ever": replay.max_ever,
            "seed": seed,
            "counter": counter,
        }
    return state


def restore_native(
    replay: _native.Replay,
    state: dict[str, Any],
    n_columns: int,
    prioritized: bool,
    limit_memory: Callable[[_native.Replay], None],
) -> None:
    """Fills a new replay of the same layout.

    :param replay: the replay to fill
    :param state: what :func:`native_state` returned
    :param n_columns: observation arrays that it must hold
    :param prioritized: whether it must hold priorities
    :param limit_memory: called while the replay is empty and all but the frames has its memory
    :raises ValueError: when the arrays do not belong together; KeyError, IndexError or TypeError when parts are missing
    """
    if prioritized:
        replay.prioritize(state["priorities"]["alpha"], state["priorities"]["seed"])
    limit_memory(replay)
    replay.restore_counters(state["steps"], state["first_step"])
    for name in ("actions", "rewards", "dones", "timeouts"):
        values = state.pop(name)
        if len(values) != replay.filled_slots:
            msg = f"{name} has {len(values)} steps, but {replay.filled_slots} were saved"
            raise ValueError(msg)
        getattr(replay, name)[: len(values)] = values
    for column, saved in enumerate(state.pop("columns")):
        for env, stream in enumerate(saved["streams"]):
            replay.restart_stream(column, env, stream["begin"])
            frames = list(stream.pop("frames"))
            while frames:
                replay.append_frames(column, env, np.ascontiguousarray(frames.pop(0)))
        replay.restore_references(column, np.ascontiguousarray(saved["references"]))
        n_columns -= 1
    if n_columns != 0:
        msg = "the number of observation arrays is not that of the space"
        raise ValueError(msg)
    if prioritized:
        saved = state.pop("priorities")
        # The first buffers of this format had neither temperature nor the largest priority ever set.
        replay.set_temperature(saved.get("temperature", 0.0))
        replay.restore_sampler(
            np.ascontiguousarray(saved["raw"]), saved.get("max_ever", 0.0), saved["seed"], saved["counter"]
        )
