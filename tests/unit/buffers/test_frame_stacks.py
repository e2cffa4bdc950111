"""Which observations are taken for stacks of frames, and what is said about stacks that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.buffers.frame_stacks import Stacking
from sb3_webscale.buffers.spaces import observation_layouts
from sb3_webscale.errors import InvalidInputError

WHOLE = Stacking()


def image(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


def floats(*shape: int) -> spaces.Box:
    return spaces.Box(-1, 1, shape, np.float32)


@pytest.mark.parametrize(
    ("space", "stacking"),
    [
        (image(4, 84, 84), Stacking(4, 0)),
        (image(12, 84, 84), Stacking(12, 0)),
        (image(84, 84, 4), Stacking(4, 2)),
        (image(84, 84, 12), Stacking(4, 2)),
        (image(84, 84, 8), Stacking(8, 2)),
        (image(16, 20, 3), WHOLE),
        (image(84, 84, 3), WHOLE),
        (image(84, 84, 1), WHOLE),
        (image(84, 84, 17), WHOLE),
        (image(5, 5, 4), WHOLE),
        (floats(84, 84, 4), WHOLE),
        (floats(4, 17), Stacking(4, 0)),
        (floats(4, 3), WHOLE),
        (floats(400), WHOLE),
        (spaces.Discrete(4), WHOLE),
    ],
    ids=str,
)
def test_what_an_observation_is_taken_for(space: spaces.Space[Any], stacking: Stacking) -> None:
    assert observation_layouts(space)[0].stacking == stacking


@pytest.mark.parametrize(
    ("space", "frame_stack", "stacking"),
    [
        (image(84, 84, 12), 12, Stacking(12, 2)),
        (image(12, 84, 84), 4, Stacking(4, 0)),
        (image(84, 84, 4), 1, WHOLE),
        (image(84, 84, 4), (4, 0), Stacking(4, 0)),
        (floats(84, 84, 4), 4, Stacking(4, 2)),
        (floats(40), 4, Stacking(4, 0)),
        (floats(4, 16), 4, Stacking(4, 0)),
        (floats(4, 16), (4, 1), Stacking(4, 1)),
        (floats(4, 16), [4, -1], Stacking(4, 1)),
        (floats(8, 16), 4, Stacking(4, 1)),
        (floats(8, 15), 4, Stacking(4, 0)),
        (floats(4), 4, WHOLE),
    ],
    ids=str,
)
def test_stacks_that_were_asked_for(space: spaces.Space[Any], frame_stack: Any, stacking: Stacking) -> None:
    assert observation_layouts(space, frame_stack)[0].stacking == stacking


def test_stacks_by_key() -> None:
    space = spaces.Dict({"camera": image(84, 84, 4), "state": floats(40), "goal": floats(3)})
    found = {layout.key: layout.stacking for layout in observation_layouts(space, {"state": 4})}
    assert found == {"camera": Stacking(4, 2), "state": Stacking(4, 0), "goal": WHOLE}


DICT_SPACE = spaces.Dict({"camera": image(84, 84, 4), "goal": floats(3)})


@pytest.mark.parametrize(
    ("space", "frame_stack", "message"),
    [
        (floats(12), 5, r"frame_stack is 5, but shape \(12,\) does not split into 5 frames along axis 0"),
        (floats(9, 10), 4, r"frame_stack is 4, .*\(9, 10\) .* along axis 1 or 0: give the number"),
        (floats(9, 12), (4, 0), r"frame_stack is \(4, 0\), .* along axis 0"),
        (floats(12), (4, 1), r"frame_stack has axis 1, but observations have shape \(12,\)"),
        (floats(12), 0, r"frame_stack is 0, but a stack holds 1 to 64 frames"),
        (floats(130), 65, r"frame_stack is 65, but a stack holds 1 to 64 frames"),
        (floats(12), True, r"frame_stack is True, but must be a number of frames, or \(number of frames, axis\)"),
        (floats(12), 2.0, r"frame_stack is 2.0, but must be a number"),
        (floats(12), "4", r"frame_stack is '4', but must be a number"),
        (floats(12), (), r"frame_stack is \(\), but must be a number"),
        (floats(12), {"state": 4}, r"but observation_space is no Dict: give the number of frames alone"),
        (DICT_SPACE, 4, r"frame_stack\['goal'\] is 4, .* keys with another one need a dict"),
        (DICT_SPACE, {"cam": 4}, r"frame_stack has the key 'cam', but observation_space has \['camera', 'goal'\]"),
        (DICT_SPACE, {"camera": 3}, r"frame_stack\['camera'\] is 3, .* along axis 2"),
    ],
    ids=str,
)
def test_stacks_that_cannot_be(space: spaces.Space[Any], frame_stack: Any, message: str) -> None:
    buffer_class: Any = WebscaleDictReplayBuffer if isinstance(space, spaces.Dict) else WebscaleReplayBuffer
    with pytest.raises(InvalidInputError, match=message):
        buffer_class(10, space, spaces.Discrete(2), frame_stack=frame_stack)
