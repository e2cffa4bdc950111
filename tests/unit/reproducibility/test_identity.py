"""The identity of a run holds all of its parts."""

from __future__ import annotations

import json
from importlib import metadata

import gymnasium as gym
import torch

from sb3_webscale.reproducibility.hardware import describe_hardware
from sb3_webscale.reproducibility.identity import describe_environment, identify, package_versions


def identity(directory):
    return identify(
        algorithm="dqn",
        env_id="CartPole-v1",
        hyperparameters={"gamma": 0.9},
        seed=3,
        data={"data": "abc"},
        directory=directory,
    )


def test_it_is_complete_and_plain_data(tmp_path):
    facts = json.loads(json.dumps(identity(tmp_path).as_dict()))
    assert facts["algorithm"] == "dqn"
    assert facts["environment"]["id"] == "CartPole-v1"
    assert facts["hyperparameters"] == {"gamma": 0.9}
    assert facts["seed"] == 3
    assert facts["data"] == {"data": "abc"}
    assert facts["hardware"]["torch_threads"] == torch.get_num_threads()
    assert facts["packages"]["torch"] == metadata.version("torch")
    assert facts["packages"]["stable-baselines3"] == metadata.version("stable-baselines3")
    assert "sb3-webscale" in facts["packages"]
    assert facts["python"].count(".") == 2


def test_a_project_outside_git_still_has_one(tmp_path):
    assert identity(tmp_path).code.commit is None


def test_the_environment_names_its_package_and_version():
    facts = describe_environment("CartPole-v1")
    assert facts["entry_point"] == "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    assert facts["max_episode_steps"] == 500
    assert (facts["distribution"], facts["version"]) == ("gymnasium", gym.__version__)


def test_packages_that_are_not_installed_are_left_out():
    versions = package_versions(["numpy", "no-such-package"])
    assert set(versions) == {"numpy", "sb3-webscale"}


def test_the_hardware_is_described():
    facts = describe_hardware()
    assert facts["cpu"]
    assert facts["cores"] >= 1
    assert facts["memory_gib"] > 0
