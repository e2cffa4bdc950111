"""Every hook fires, in the promised order, is documented with its arguments, and has a test of its own here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from sb3_webscale.data import LoggedEvents, Transitions
from sb3_webscale.plugins import EnvironmentRegistrar, PluginManager, Registrar, hookimpl, spec
from sb3_webscale.plugins.builtin import UniformCurriculum

DOCS = Path(__file__).parents[3] / "docs" / "plugins.md"
HOOKS = {name: getattr(spec, name) for name in spec.HOOK_ORDER}


class NoConverter:
    def convert(self, source: str | Path) -> Transitions:
        raise LookupError

    def logged_events(self, source: str | Path) -> LoggedEvents:
        raise LookupError

    def fingerprint(self, source: str | Path) -> str:
        return "0" * 64


class Same:
    def augment(self, transitions: Transitions, rng: np.random.Generator) -> Transitions:
        return transitions


def load(**hooks: Callable[..., None]) -> PluginManager:
    plugin = type("Plugin", (), {name: staticmethod(hookimpl(hook)) for name, hook in hooks.items()})
    return PluginManager.load(found=[], plugins={"test": plugin()})


def test_hook_webscale_register_converters() -> None:
    received: list[object] = []

    def webscale_register_converters(register: Registrar[Any]) -> None:
        received.append(register)
        register.add("test.none", NoConverter())

    manager = load(webscale_register_converters=webscale_register_converters)
    assert isinstance(received[0], Registrar)
    assert manager.converters["test.none"].fingerprint("x") == "0" * 64
    assert manager.converters.owner("test.none") == "test"


def test_hook_webscale_register_curricula() -> None:
    def webscale_register_curricula(register: Registrar[Any]) -> None:
        register.add("test.even", UniformCurriculum())

    manager = load(webscale_register_curricula=webscale_register_curricula)
    assert manager.curricula.owner("test.even") == "test"


def test_hook_webscale_register_augmentations() -> None:
    def webscale_register_augmentations(register: Registrar[Any]) -> None:
        register.add("test.same", Same())

    manager = load(webscale_register_augmentations=webscale_register_augmentations)
    assert manager.augmentations.owner("test.same") == "test"


def test_hook_webscale_register_environments() -> None:
    def webscale_register_environments(register: EnvironmentRegistrar) -> None:
        register.add("HookPole-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv", max_episode_steps=3)

    manager = load(webscale_register_environments=webscale_register_environments)
    assert manager.environments.owner("HookPole-v0") == "test"
    assert gymnasium.spec("HookPole-v0").max_episode_steps == 3
    manager.environments.withdraw("test")


class Recorder:
    """Writes down which of its hooks fired."""

    def __init__(self, name: str, fired: list[tuple[str, str]]) -> None:
        self.name = name
        self.fired = fired

    @hookimpl
    def webscale_register_environments(self, register: object) -> None:
        self.fired.append(("webscale_register_environments", self.name))

    @hookimpl
    def webscale_register_augmentations(self, register: object) -> None:
        self.fired.append(("webscale_register_augmentations", self.name))

    @hookimpl
    def webscale_register_curricula(self, register: Registrar[Any]) -> None:
        assert "uniform" in register.registry
        self.fired.append(("webscale_register_curricula", self.name))

    @hookimpl
    def webscale_register_converters(self, register: object) -> None:
        self.fired.append(("webscale_register_converters", self.name))


def test_hooks_fire_kind_after_kind_and_plugins_by_the_alphabet() -> None:
    fired: list[tuple[str, str]] = []
    manager = PluginManager.load(found=[], plugins={name: Recorder(name, fired) for name in ("b", "c", "a")})
    assert manager.failures == ()
    assert fired == [(hook, name) for hook in spec.HOOK_ORDER for name in ("a", "b", "c")]
    assert [info.name for info in manager.plugins] == ["builtin", "a", "b", "c"]


def test_tryfirst_and_trylast_are_honoured() -> None:
    order: list[str] = []

    def plugin(name: str, **options: bool) -> object:
        def webscale_register_converters(register: object) -> None:
            order.append(name)

        marked = hookimpl(**options)(webscale_register_converters)
        return type("Plugin", (), {"webscale_register_converters": staticmethod(marked)})()

    plugins = {"a": plugin("a", trylast=True), "b": plugin("b"), "c": plugin("c", tryfirst=True)}
    PluginManager.load(found=[], plugins=plugins)
    assert order == ["c", "b", "a"]


def test_every_specification_is_listed_in_firing_order() -> None:
    specified = {name for name in vars(spec) if name.startswith("webscale_")}
    assert specified == set(spec.HOOK_ORDER)


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_hook_is_documented_with_its_arguments(name: str) -> None:
    arguments = ", ".join(inspect.signature(HOOKS[name]).parameters)
    assert f"`{name}({arguments})`" in DOCS.read_text(encoding="utf-8")


def test_documentation_lists_hooks_in_firing_order() -> None:
    text = DOCS.read_text(encoding="utf-8")
    places = [text.index(f"### `{name}(") for name in spec.HOOK_ORDER]
    assert places == sorted(places)


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_hook_says_when_it_fires_and_since_when(name: str) -> None:
    text = inspect.getdoc(HOOKS[name]) or ""
    assert "Fires" in text
    assert ".. versionadded::" in text
    assert all(f":param {argument}:" in text for argument in inspect.signature(HOOKS[name]).parameters)


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_hook_has_a_test_of_its_own(name: str) -> None:
    assert f"test_hook_{name}" in globals()
