"""The native replay as plain arrays, for pickles; versioned."""

from __future__ import annotations

from typing import Any

import numpy as np

from sb3_webscale import _native
from sb3_webscale.errors import SnapshotFormatError

__all__ = ["FORMAT", "native_state", "restore_native"]

FORMAT = 1


def native_state(replay: _native.Replay, n_columns: int, n_envs: int) -> dict[str, Any]:
    """
    :param replay: the replay to save
    :param n_columns: observation arrays that it holds
    :param n_envs: environments that it serves
    :return: integers and arrays only; the arrays are views, so pickling them to a file copies nothing
    """
    filled = replay.filled_slots
    state: dict[str, Any] = {
        "steps": replay.steps,
        "first_step": replay.first_step,
        "actions": replay.actions[:filled],
        "rewards": replay.rewards[:filled],
        "dones": replay.dones[:filled],
        "timeouts": replay.timeouts[:filled],
        "columns": [
            {
                "references": replay.references(column),
                "streams": [
                    {"begin": replay.stream_begin(column, env), "frames": replay.stream_frames(column, env)}
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
            "raw": replay.stored_priorities,
            "max_ever": replay.max_ever,
            "seed": seed,
            "counter": counter,
        }
    return state


def restore_native(replay: _native.Replay, state: dict[str, Any], prioritized: bool) -> None:
    """Fills a new replay of the same layout. ``state`` is emptied on the way, so that memory is never held twice.

    :param replay: the replay to fill
    :param state: what :func:`native_state` returned
    :param prioritized: whether it must hold priorities
    :raises SnapshotFormatError: when the arrays do not belong together
    """
    try:
        for name in ("actions", "rewards", "dones", "timeouts"):
            values = state.pop(name)
            getattr(replay, name)[: len(values)] = values
        for column, saved in enumerate(state.pop("columns")):
            for env, stream in enumerate(saved["streams"]):
                replay.restart_stream(column, env, stream["begin"])
                frames = stream["frames"]
                while frames:
                    replay.append_frames(column, env, np.ascontiguousarray(frames.pop(0)))
            replay.restore_references(column, np.ascontiguousarray(saved["references"]))
        replay.restore_counters(state["steps"], state["first_step"])
        if prioritized:
            saved = state.pop("priorities")
            replay.prioritize(saved["alpha"], saved["seed"])
            # The first buffers of this format had neither temperature nor the largest priority ever set.
            replay.set_temperature(saved.get("temperature", 0.0))
            replay.restore_sampler(
                np.ascontiguousarray(saved["raw"]), saved.get("max_ever", 0.0), saved["seed"], saved["counter"]
            )
    except (KeyError, TypeError, ValueError) as error:
        msg = f"the saved replay buffer is damaged: {error}. Use another copy of the file"
        raise SnapshotFormatError(msg) from error
