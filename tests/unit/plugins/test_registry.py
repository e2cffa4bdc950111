"""Registries: names are unique and well formed, objects can do what their kind must, unknown names get a hint."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from sb3_webscale.errors import PluginError
from sb3_webscale.plugins import Curriculum, EnvironmentRegistry, Registrar, Registry
from sb3_webscale.plugins.builtin import UniformCurriculum

CARTPOLE = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"


@pytest.fixture
def registry() -> Registry[Curriculum]:
    return Registry("curriculum", Curriculum)


def test_is_a_mapping_that_knows_owners(registry: Registry[Curriculum]) -> None:
    curriculum = UniformCurriculum()
    Registrar(registry, "shop").add("shop.even", curriculum)
    assert registry["shop.even"] is curriculum
    assert list(registry) == ["shop.even"]
    assert len(registry) == 1
    assert "other" not in registry
    assert registry.get("other") is None
    assert registry.owner("shop.even") == "shop"


def test_a_taken_name_names_both_plugins(registry: Registry[Curriculum]) -> None:
    registry.add("even", UniformCurriculum(), "first")
    with pytest.raises(
        PluginError, match=r"plugin 'second': curriculum 'even' is already registered by plugin 'first'"
    ):
        registry.add("even", UniformCurriculum(), "second")


def test_an_unknown_name_gets_the_nearest_and_the_list(registry: Registry[Curriculum]) -> None:
    registry.add("even", UniformCurriculum(), "shop")
    registry.add("steep", UniformCurriculum(), "shop")
    with pytest.raises(PluginError, match=r"no curriculum is named 'evn'; did you mean 'even'\? valid: even, steep"):
        registry["evn"]


def test_an_empty_registry_says_so(registry: Registry[Curriculum]) -> None:
    with pytest.raises(PluginError, match="none to choose from"):
        registry["even"]


@pytest.mark.parametrize("name", ["", "Even", "two words", ".even", "even.", "a..b", "1st"])
def test_malformed_names_are_refused(registry: Registry[Curriculum], name: str) -> None:
    with pytest.raises(PluginError, match="malformed"):
        registry.add(name, UniformCurriculum(), "shop")


def test_an_object_without_the_method_is_refused(registry: Registry[Curriculum]) -> None:
    with pytest.raises(PluginError, match=r"plugin 'shop': curriculum 'even' .* lacks weights\(\)"):
        registry.add("even", object(), "shop")  # type: ignore[arg-type]


def test_a_class_is_no_instance(registry: Registry[Curriculum]) -> None:
    with pytest.raises(PluginError, match="is a class; register an instance"):
        registry.add("even", UniformCurriculum, "shop")  # type: ignore[arg-type]


def test_withdrawing_takes_only_what_the_plugin_registered(registry: Registry[Curriculum]) -> None:
    registry.add("even", UniformCurriculum(), "first")
    registry.add("steep", UniformCurriculum(), "second")
    registry.withdraw("first")
    assert list(registry) == ["steep"]


@pytest.fixture
def environments() -> Iterator[EnvironmentRegistry]:
    registry = EnvironmentRegistry()
    yield registry
    for owner in {registry.owner(name) for name in registry}:
        registry.withdraw(owner)


def test_environments_can_be_made(environments: EnvironmentRegistry) -> None:
    environments.add("PluginPole-v0", CARTPOLE, "shop", max_episode_steps=7)
    assert environments["PluginPole-v0"].max_episode_steps == 7
    assert environments.owner("PluginPole-v0") == "shop"
    env = gymnasium.make("PluginPole-v0")
    assert isinstance(env.observation_space.low, np.ndarray)
    env.close()


def test_the_same_environment_may_be_registered_by_a_second_manager(environments: EnvironmentRegistry) -> None:
    environments.add("PluginPole-v0", CARTPOLE, "shop")
    EnvironmentRegistry().add("PluginPole-v0", CARTPOLE, "shop")


def test_a_taken_environment_id_is_refused(environments: EnvironmentRegistry) -> None:
    environments.add("PluginPole-v0", CARTPOLE, "first")
    with pytest.raises(PluginError, match=r"plugin 'second': environment 'PluginPole-v0' .* plugin 'first'"):
        environments.add("PluginPole-v0", CARTPOLE, "second")
    with pytest.raises(PluginError, match=r"'CartPole-v1' is already registered by gymnasium"):
        environments.add("CartPole-v1", "elsewhere:Env", "second")


def test_withdrawn_environments_leave_gymnasium(environments: EnvironmentRegistry) -> None:
    environments.add("PluginPole-v0", CARTPOLE, "shop")
    environments.withdraw("shop")
    assert "PluginPole-v0" not in gymnasium.registry
    with pytest.raises(PluginError, match="no plugin registered"):
        environments["PluginPole-v0"]
