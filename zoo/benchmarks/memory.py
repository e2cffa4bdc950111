"""Memory per stored transition, against Stable-Baselines3's replay buffer on the same stream.

Two streams: Atari frames, (4, 84, 84) uint8, from ALE Pong played at random under the wrappers of SB3; vectors of 256
floats from random walks with episodes of 200 steps. Both buffers are filled to capacity; the bytes are those of SB3's
arrays and of ours (all native memory), beside what the process really grew by (resident set size).

    python zoo/benchmarks/memory.py [--quick] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import psutil
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

from sb3_webscale import WebscaleReplayBuffer

Step = tuple[Any, Any, Any, Any, Any, Any]


def pong_steps(count: int, seed: int) -> Iterator[Step]:
    """Transitions of ALE Pong as SB3's algorithms hand them to the buffer."""
    gym.register_envs(ale_py)
    env = VecTransposeImage(VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=1, seed=seed), 4))
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


def vector_steps(count: int, seed: int) -> Iterator[Step]:
    """Random walks of 256 floats, an episode every 200 steps."""
    random = np.random.default_rng(seed)
    obs = random.standard_normal((1, 256)).astype(np.float32)
    for step in range(1, count + 1):
        next_obs = obs + random.standard_normal((1, 256)).astype(np.float32)
        done = step % 200 == 0
        yield obs, next_obs, np.zeros((1, 4), np.float32), np.zeros(1), np.array([done]), [{}]
        obs = random.standard_normal((1, 256)).astype(np.float32) if done else next_obs


def array_bytes(buffer: ReplayBuffer) -> int:
    """Bytes that a buffer holds for its transitions."""
    if isinstance(buffer, WebscaleReplayBuffer):
        return buffer.nbytes
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    return sum(getattr(buffer, name).nbytes for name in names)


def measure(buffer: ReplayBuffer, steps: Iterator[Step]) -> dict[str, float]:
    """Fill the buffer; bytes per transition by its arrays and by the growth of the process."""
    gc.collect()
    before = psutil.Process().memory_info().rss
    for step in steps:
        buffer.add(*step)
    gc.collect()
    grown = psutil.Process().memory_info().rss - before
    assert buffer.full
    return {"bytes": array_bytes(buffer) / buffer.buffer_size, "resident": grown / buffer.buffer_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="5,000 frames and 20,000 vectors instead of 20,000 and 200,000"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/memory.json"))
    arguments = parser.parse_args()
    frames, vectors = (5_000, 20_000) if arguments.quick else (20_000, 200_000)
    image = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    flat = spaces.Box(-np.inf, np.inf, (256,), np.float32)
    cases = [
        ("Pong (4, 84, 84) uint8", frames, image, spaces.Discrete(6), pong_steps),
        ("256 floats", vectors, flat, spaces.Box(-1, 1, (4,), np.float32), vector_steps),
    ]
    table = Table(title="Bytes per stored transition")
    for column in ("stream", "transitions", "SB3", "webscale", "ratio", "SB3 resident", "webscale resident"):
        table.add_column(column, justify="left" if column == "stream" else "right")
    results = []
    for name, count, observation_space, action_space, stream in cases:
        ours = measure(WebscaleReplayBuffer(count, observation_space, action_space), stream(count, arguments.seed))
        sb3 = measure(ReplayBuffer(count, observation_space, action_space), stream(count, arguments.seed))
        ratio = sb3["bytes"] / ours["bytes"]
        results.append({"stream": name, "transitions": count, "sb3": sb3, "webscale": ours, "ratio": ratio})
        numbers = [sb3["bytes"], ours["bytes"], ratio, sb3["resident"], ours["resident"]]
        table.add_row(name, f"{count:,}", *(f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for value in numbers))
    Console(width=120).print(table)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"seed": arguments.seed, "results": results}, indent=2))


if __name__ == "__main__":
    main()
