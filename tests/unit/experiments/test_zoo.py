"""The configurations that ship with the project load."""

from __future__ import annotations

from pathlib import Path

import pytest

from sb3_webscale.experiments.config import load_config
from sb3_webscale.experiments.model import replay_buffer_arguments

ZOO = Path(__file__).parents[3] / "zoo"
FILES = sorted(path for folder in ("atari", "cartpole", "recsys") for path in (ZOO / folder).glob("*.yml"))


def test_there_are_some():
    assert len(FILES) >= 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_it_loads_with_its_buffer_and_data(path):
    config = load_config(path)
    arguments = replay_buffer_arguments(config)
    assert arguments["replay_buffer_class"].__module__.startswith("sb3_webscale.")
    for section in (config.data, config.off_policy_evaluation):
        assert section is None or Path(config.resolve(section.source)).is_file()


def test_the_cartpole_pair_differs_only_in_replay():
    uniform, prioritized = (
        load_config(ZOO / "cartpole" / f"dqn_{name}.yml").block for name in ("uniform", "prioritized")
    )
    different = {key for key in uniform | prioritized if uniform.get(key) != prioritized.get(key)}
    assert different == {"replay_buffer_kwargs"}
