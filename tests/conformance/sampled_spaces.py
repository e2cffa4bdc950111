"""The observation and action spaces that every comparison with SB3 covers."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

FLAT_SPACES: dict[str, spaces.Space[Any]] = {
    "float64": spaces.Box(-1, 1, (3,), np.float64),
    "float32": spaces.Box(-1, 1, (5,), np.float32),
    "float16": spaces.Box(-1, 1, (3,), np.float16),
    "uint16": spaces.Box(0, 65535, (4,), np.uint16),
    "uint8": spaces.Box(0, 255, (3,), np.uint8),
    "int8": spaces.Box(-128, 127, (3,), np.int8),
    "bool": spaces.Box(0, 1, (3,), np.bool_),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float32),
    "image": spaces.Box(0, 255, (4, 9, 9), np.uint8),
    "image channels last": spaces.Box(0, 255, (9, 9, 3), np.uint8),
    "discrete": spaces.Discrete(7),
    "discrete from 3": spaces.Discrete(7, start=3),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(5),
    "multi-binary matrix": spaces.MultiBinary([2, 3]),
}

DICT_SPACE = spaces.Dict(
    {
        "position": spaces.Box(-1, 1, (3,), np.float64),
        "camera": spaces.Box(0, 255, (4, 8, 8), np.uint8),
        "room": spaces.Discrete(5),
        "level": spaces.MultiDiscrete([3, 4]),
        "keys": spaces.MultiBinary(4),
    }
)

ACTION_SPACES: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "discrete": spaces.Discrete(4),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(4),
    "box (2, 3) float64": spaces.Box(-1, 1, (2, 3), np.float64),
}

ACTIONS = ACTION_SPACES["box"]
