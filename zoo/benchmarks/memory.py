"""Memory per stored transition, against Stable-Baselines3's replay buffer on the same stream.

Images: ALE Pong played at random, four frames of 84 x 84 stacked by SB3's VecFrameStack, grey under SB3's Atari
wrappers and RGB under Gymnasium's, with channels first (as under VecTransposeImage) and last. Vectors from random walks
with episodes of 200 steps: 256 floats, and four stacked frames of 64. Both buffers are filled to capacity; the bytes
are those of SB3's arrays and of ours (all native memory), beside what a process really grew by
(resident set size, with the emulator's).

    python zoo/benchmarks/memory.py [--quick] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import psutil
from gymnasium import spaces
from gymnasium.wrappers import AtariPreprocessing
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecTransposeImage

from sb3_webscale import WebscaleReplayBuffer

Step = tuple[Any, Any, Any, Any, Any, Any]
Stream = Callable[[int, int], Iterator[Step]]


def pong(seed: int, *, rgb: bool, channels_last: bool) -> VecEnv:
    """Pong with four stacked frames."""
    gym.register_envs(ale_py)
    name = "PongNoFrameskip-v4"
    if rgb:
        plain = make_vec_env(name, seed=seed, wrapper_class=AtariPreprocessing, wrapper_kwargs={"grayscale_obs": False})
    else:
        plain = make_atari_env(name, seed=seed)
    stacked = VecFrameStack(plain, 4)
    return stacked if channels_last else VecTransposeImage(stacked)


def pong_steps(count: int, seed: int, *, rgb: bool, channels_last: bool) -> Iterator[Step]:
    """Transitions of ALE Pong as SB3's algorithms hand them to the buffer."""
    env = pong(seed, rgb=rgb, channels_last=channels_last)
    env.action_space.seed(seed)
    obs = env.reset()
    for _ in range(count):
        action = np.array([env.action_space.sample()])
        next_obs, reward, done, infos = env.step(action)
        stored = next_obs.copy()
        if done[0]:
            stored[0] = infos[0]["terminal_observation"]
        yield obs, stored, action, reward, done, infos
        obs = next_obs
    env.close()


def vector_steps(count: int, seed: int, *, frames: int) -> Iterator[Step]:
    """Random walks of 256 floats, which are so many frames; an episode every 200 steps, which starts after blanks."""
    random = np.random.default_rng(seed)
    size = 256 // frames

    def start() -> Any:
        return np.concatenate([np.zeros((1, 256 - size)), random.standard_normal((1, size))], axis=1, dtype=np.float32)

    obs = start()
    for step in range(1, count + 1):
        frame = obs[:, -size:] + random.standard_normal((1, size)).astype(np.float32)
        next_obs = np.concatenate([obs[:, size:], frame], axis=1)
        done = step % 200 == 0
        yield obs, next_obs, np.zeros((1, 4), np.float32), np.zeros(1), np.array([done]), [{}]
        obs = start() if done else next_obs


def array_bytes(buffer: ReplayBuffer) -> int:
    """Bytes that a buffer holds for its transitions."""
    if isinstance(buffer, WebscaleReplayBuffer):
        return buffer.nbytes
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    return sum(getattr(buffer, name).nbytes for name in names)


def measure(build: Callable[[], ReplayBuffer], stream: Callable[[], Iterator[Step]]) -> dict[str, float]:
    """Fill a buffer; bytes per transition by its arrays and by the growth of the process."""
    buffer = build()
    gc.collect()
    before = psutil.Process().memory_info().rss
    for step in stream():
        buffer.add(*step)
    gc.collect()
    grown = psutil.Process().memory_info().rss - before
    assert buffer.full
    return {"bytes": array_bytes(buffer) / buffer.buffer_size, "resident": grown / buffer.buffer_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="5,000 grey images and 20,000 vectors instead of 20,000 and 200,000"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/memory.json"))
    arguments = parser.parse_args()
    images, vectors = (5_000, 20_000) if arguments.quick else (20_000, 200_000)
    flat = spaces.Box(-np.inf, np.inf, (256,), np.float32)
    cases: list[tuple[str, int, spaces.Box, spaces.Space[Any], Stream, int | None]] = []
    for rgb, channels_last in itertools.product((False, True), repeat=2):
        channels = 12 if rgb else 4
        shape = (84, 84, channels) if channels_last else (channels, 84, 84)
        space = spaces.Box(0, 255, shape, np.uint8)
        stream = partial(pong_steps, rgb=rgb, channels_last=channels_last)
        cases.append((f"Pong {shape} uint8", images // (4 if rgb else 1), space, spaces.Discrete(6), stream, None))
    for parts in (1, 4):
        name = "256 floats" if parts == 1 else f"{parts} x {256 // parts} floats"
        action_space = spaces.Box(-1, 1, (4,), np.float32)
        cases.append((name, vectors, flat, action_space, partial(vector_steps, frames=parts), parts))
    table = Table(title="Bytes per stored transition")
    for column in ("stream", "transitions", "SB3", "webscale", "ratio", "SB3 resident", "webscale resident"):
        table.add_column(column, justify="left" if column == "stream" else "right")
    results = []
    # Each in a process of its own, so that none fills memory that another has left.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as workers:
        for name, count, observation_space, action_space, stream, frame_stack in cases:
            steps = partial(stream, count, arguments.seed)
            form = (count, observation_space, action_space)
            ours = workers.apply(measure, (partial(WebscaleReplayBuffer, *form, frame_stack=frame_stack), steps))
            sb3 = workers.apply(measure, (partial(ReplayBuffer, *form), steps))
            ratio = sb3["bytes"] / ours["bytes"]
            results.append({"stream": name, "transitions": count, "sb3": sb3, "webscale": ours, "ratio": ratio})
            numbers = [sb3["bytes"], ours["bytes"], ratio, sb3["resident"], ours["resident"]]
            table.add_row(
                name, f"{count:,}", *(f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for value in numbers)
            )
    Console(width=120).print(table)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"seed": arguments.seed, "results": results}, indent=2))


if __name__ == "__main__":
    main()
