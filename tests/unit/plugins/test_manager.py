"""The plugin manager: discovery, isolation of broken plugins, opting out."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import gymnasium
import pytest

from sb3_webscale.plugins import NAME, PluginManager, hookimpl
from sb3_webscale.plugins.builtin import UniformCurriculum
from sb3_webscale.plugins.manager import DISABLE_VARIABLE

GOOD = """
from sb3_webscale.plugins import hookimpl
from sb3_webscale.plugins.builtin import UniformCurriculum

@hookimpl
def webscale_register_curricula(register):
    register.add("{name}.even", UniformCurriculum())
"""
BROKEN = {
    "import_error": "import no_such_module_anywhere",
    "syntax_error": "def broken(:",
    "exits": "import sys; sys.exit('at import')",
    "raises_at_import": "raise RuntimeError('at import')",
    "misspelt": GOOD.replace("webscale_register_curricula", "webscale_register_curriculum"),
    "unmarked": GOOD.replace("@hookimpl", ""),
    "no_hooks": "VALUE = 1",
    "wrong_argument": GOOD.replace("(register)", "(registry)"),
    "raises": GOOD + '    raise ValueError("half way")\n',
    "wrong_object": GOOD.replace("UniformCurriculum())", "object())"),
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(DISABLE_VARIABLE, raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def entry(folder: Path, name: str, text: str = GOOD) -> EntryPoint:
    (folder / f"plugin_{name}.py").write_text(text.replace("{name}", name), encoding="utf-8")
    return EntryPoint(name=name, value=f"plugin_{name}", group=NAME)


def test_builtins_come_through_the_same_hooks() -> None:
    manager = PluginManager.load(found=[])
    assert [info.name for info in manager.plugins] == ["builtin"]
    assert manager.plugins[0].hooks == ("webscale_register_curricula",)
    assert isinstance(manager.curricula["uniform"], UniformCurriculum)
    assert manager.curricula.owner("uniform") == "builtin"


def test_entry_points_are_loaded(modules: Path) -> None:
    manager = PluginManager.load(found=[entry(modules, "shop")])
    assert manager.curricula.owner("shop.even") == "shop"
    assert [info.name for info in manager.plugins] == ["builtin", "shop"]


def test_installed_plugins_are_found() -> None:
    manager = PluginManager.load()
    recsys = next(info for info in manager.plugins if info.name == "recsys")
    assert recsys.distribution.startswith("sb3-webscale-recsys ")
    assert recsys.hooks == ("webscale_register_converters", "webscale_register_environments")
    assert manager.failures == ()


def test_two_managers_share_nothing(modules: Path) -> None:
    assert "shop.even" in PluginManager.load(found=[entry(modules, "shop")]).curricula
    assert "shop.even" not in PluginManager.load(found=[]).curricula


@pytest.mark.parametrize(
    ("kind", "stage", "part"),
    [
        ("import_error", "import", "no_such_module_anywhere"),
        ("syntax_error", "import", "SyntaxError"),
        ("exits", "import", "at import"),
        ("raises_at_import", "import", "at import"),
        (
            "misspelt",
            "register",
            "'webscale_register_curriculum' is no hook; did you mean 'webscale_register_curricula'",
        ),
        ("unmarked", "register", "not marked"),
        ("no_hooks", "register", "implements no hook"),
        ("wrong_argument", "register", "registry"),
        ("raises", "webscale_register_curricula", "half way"),
        ("wrong_object", "webscale_register_curricula", "lacks weights()"),
    ],
)
def test_a_broken_plugin_is_named_and_does_not_stop_the_others(modules: Path, kind: str, stage: str, part: str) -> None:
    found = [entry(modules, "alpha"), entry(modules, kind, BROKEN[kind]), entry(modules, "zulu")]
    with pytest.warns(UserWarning, match=f"left out broken plugins: plugin '{kind}' failed at {stage}") as caught:
        manager = PluginManager.load(found=found)
    assert len(caught) == 1
    (failure,) = manager.failures
    assert (failure.name, failure.stage) == (kind, stage)
    assert part in str(failure)
    assert set(manager.curricula) == {"uniform", "alpha.even", "zulu.even"}
    assert [info.name for info in manager.plugins] == ["builtin", "alpha", "zulu"]


def test_all_broken_plugins_share_one_warning(modules: Path) -> None:
    with pytest.warns(UserWarning, match="broken") as caught:
        manager = PluginManager.load(found=[entry(modules, kind, text) for kind, text in BROKEN.items()])
    assert len(caught) == 1
    assert {failure.name for failure in manager.failures} == set(BROKEN)
    assert all(repr(kind) in str(caught[0].message) for kind in BROKEN)


def test_what_a_plugin_registered_before_it_failed_is_withdrawn() -> None:
    class Late:
        @hookimpl
        def webscale_register_curricula(self, register):  # type: ignore[no-untyped-def]
            register.add("late.even", UniformCurriculum())

        @hookimpl
        def webscale_register_environments(self, register):  # type: ignore[no-untyped-def]
            register.add("Late-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv")
            raise RuntimeError("too late")

    with pytest.warns(UserWarning, match="too late"):
        manager = PluginManager.load(found=[], plugins={"late": Late()})
    assert "late.even" not in manager.curricula
    assert "Late-v0" not in gymnasium.registry
    assert [info.name for info in manager.plugins] == ["builtin"]


def test_a_name_taken_by_an_earlier_plugin_leaves_the_earlier_one(modules: Path) -> None:
    text = GOOD.replace("{name}.even", "even")
    with pytest.warns(UserWarning, match=r"plugin 'second'.*already registered by plugin 'first'"):
        manager = PluginManager.load(found=[entry(modules, "second", text), entry(modules, "first", text)])
    assert manager.curricula.owner("even") == "first"


def test_two_distributions_with_one_entry_point_name(modules: Path) -> None:
    twice = [entry(modules, "shop"), EntryPoint(name="shop", value="plugin_other", group=NAME)]
    with pytest.warns(UserWarning, match=r"'shop'.*taken more than once.*plugin_shop, plugin_other"):
        manager = PluginManager.load(found=twice)
    assert "shop.even" not in manager.curricula


def test_the_name_of_the_builtins_is_reserved(modules: Path) -> None:
    with pytest.warns(UserWarning, match="'builtin'"):
        manager = PluginManager.load(found=[entry(modules, "builtin")])
    assert set(manager.curricula) == {"uniform"}


@pytest.mark.parametrize(
    ("value", "loaded"), [("", {"a", "b"}), ("a", {"b"}), (" b , a", set()), ("all", set()), ("other", {"a", "b"})]
)
def test_plugins_can_be_switched_off(
    modules: Path, monkeypatch: pytest.MonkeyPatch, value: str, loaded: set[str]
) -> None:
    monkeypatch.setenv(DISABLE_VARIABLE, value)
    manager = PluginManager.load(found=[entry(modules, "a"), entry(modules, "b")])
    assert {info.name for info in manager.plugins} == {"builtin"} | loaded
    assert set(manager.disabled) == {"a", "b"} - loaded


def test_a_plugin_that_is_switched_off_is_not_imported(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DISABLE_VARIABLE, "exits")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        manager = PluginManager.load(found=[entry(modules, "exits", BROKEN["exits"])])
    assert manager.failures == ()


def test_an_optional_hook_of_another_version_is_allowed() -> None:
    module = types.ModuleType("future")

    @hookimpl
    def webscale_register_curricula(register):  # type: ignore[no-untyped-def]
        register.add("future.even", UniformCurriculum())

    @hookimpl(optionalhook=True)
    def webscale_register_dreams(register):  # type: ignore[no-untyped-def]
        raise AssertionError

    module.webscale_register_curricula = webscale_register_curricula  # type: ignore[attr-defined]
    module.webscale_register_dreams = webscale_register_dreams  # type: ignore[attr-defined]
    assert "future.even" in PluginManager.load(found=[], plugins={"future": module}).curricula
