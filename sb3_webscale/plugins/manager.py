"""The plugin manager: finds plugins, loads each on its own, and calls their hooks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeGuard

import pluggy

from sb3_webscale.data.converter import Converter
from sb3_webscale.data.names import name_hint
from sb3_webscale.errors import PluginError
from sb3_webscale.plugins import builtin, spec
from sb3_webscale.plugins.marker import NAME
from sb3_webscale.plugins.protocols import Augmentation, Curriculum
from sb3_webscale.plugins.registry import EnvironmentRegistrar, EnvironmentRegistry, Registrar, Registry

__all__ = ["DISABLE_VARIABLE", "PluginFailure", "PluginInfo", "PluginManager"]

DISABLE_VARIABLE = "SB3_WEBSCALE_DISABLE_PLUGINS"
"""Environment variable: names of plugins not to load, separated by commas, or ``all``. Built-ins always load."""

_BUILTIN = "builtin"
_PREFIX = "webscale_"
# A module that calls sys.exit() when imported is broken too; Ctrl-C is the user's.
_CAUGHT = (Exception, SystemExit)


@dataclass(frozen=True)
class PluginInfo:
    """A plugin that is in use.

    :param name: name of its entry point
    :param distribution: ``name version`` of the distribution it came from, or where else it came from
    :param hooks: the hooks it implements, in the order in which they fire
    """

    name: str
    distribution: str
    hooks: tuple[str, ...]


@dataclass(frozen=True)
class PluginFailure:
    """A plugin that is not in use, because something in it is broken.

    :param name: name of its entry point
    :param stage: ``import``, ``register`` (a misspelt or wrongly declared hook) or the hook that raised
    :param error: what was raised
    """

    name: str
    stage: str
    error: BaseException

    def __str__(self) -> str:
        return f"plugin {self.name!r} failed at {self.stage}: {type(self.error).__name__}: {self.error}"


class PluginManager:
    """Plugins and what they registered. An instance of its own: no plugin is loaded by importing anything.

    :ivar converters: name to :class:`~sb3_webscale.data.converter.Converter`
    :ivar curricula: name to :class:`~sb3_webscale.plugins.protocols.Curriculum`
    :ivar augmentations: name to :class:`~sb3_webscale.plugins.protocols.Augmentation`
    :ivar environments: environment id to Gymnasium spec
    """

    def __init__(self) -> None:
        self.converters: Registry[Converter] = Registry("converter", Converter)
        self.curricula: Registry[Curriculum] = Registry("curriculum", Curriculum)
        self.augmentations: Registry[Augmentation] = Registry("augmentation", Augmentation)
        self.environments = EnvironmentRegistry()
        self.disabled: tuple[str, ...] = ()
        self._failures: list[PluginFailure] = []
        self._origins: dict[str, str] = {}
        self._pluggy = pluggy.PluginManager(NAME)
        self._pluggy.add_hookspecs(spec)

    @classmethod
    def load(
        cls, *, plugins: Mapping[str, object] | None = None, found: Iterable[EntryPoint] | None = None
    ) -> PluginManager:
        """Load built-ins and every installed plugin; a broken plugin is left out, and one warning names all such.

        :param plugins: further plugins by name, for scripts and tests that have no distribution
        :param found: entry points to load instead of the installed ones
        :return: the manager, with every registry filled
        """
        manager = cls()
        candidates = entry_points(group=NAME) if found is None else found
        manager._load_all(dict(plugins or {}), list(candidates))
        for hook in spec.HOOK_ORDER:
            manager._fire(hook)
        if manager._failures:
            lines = "; ".join(str(failure) for failure in manager._failures)
            warnings.warn(f"left out broken plugins: {lines}", UserWarning, stacklevel=2)
        return manager

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """The plugins left out, with the reason."""
        return tuple(self._failures)

    @property
    def plugins(self) -> tuple[PluginInfo, ...]:
        """The plugins in use, built-ins first, then by name."""
        return tuple(self._info(name) for name in self._origins if self._pluggy.has_plugin(name))

    def _info(self, name: str) -> PluginInfo:
        callers = self._pluggy.get_hookcallers(self._pluggy.get_plugin(name)) or []
        implemented = {caller.name for caller in callers}
        return PluginInfo(name, self._origins[name], tuple(hook for hook in spec.HOOK_ORDER if hook in implemented))

    def _load_all(self, plugins: dict[str, object], found: list[EntryPoint]) -> None:
        blocked = {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",")} - {""}
        by_name: dict[str, list[EntryPoint | object]] = {name: [plugin] for name, plugin in plugins.items()}
        for entry_point in found:
            by_name.setdefault(entry_point.name, []).append(entry_point)
        self.disabled = tuple(sorted(name for name in by_name if name in blocked or "all" in blocked))
        self._origins = {_BUILTIN: "part of sb3-webscale"}
        self._origins |= {name: _origin(by_name[name][0]) for name in sorted(by_name)}
        # pluggy calls the last registered first; registering backwards makes the order that the hooks promise.
        for name in sorted(by_name, reverse=True):
            if name not in self.disabled:
                self._load_one(name, by_name[name])
        self._pluggy.register(builtin, _BUILTIN)

    def _load_one(self, name: str, candidates: list[EntryPoint | object]) -> None:
        if len(candidates) > 1 or name == _BUILTIN:
            origins = ", ".join(_origin(candidate) for candidate in candidates)
            problem = f"the name is taken more than once ({origins}); rename or uninstall one"
            self._failures.append(PluginFailure(name, "register", PluginError(problem)))
            return
        plugin = candidates[0]
        if _is_entry_point(plugin):
            try:
                plugin = plugin.load()
            except _CAUGHT as error:
                self._failures.append(PluginFailure(name, "import", error))
                return
        try:
            self._pluggy.register(plugin, name)
            _refuse_misspelt(plugin, self._pluggy.get_hookcallers(plugin) or [])
        except _CAUGHT as error:
            self._drop(name, "register", error)

    def _fire(self, hook: str) -> None:
        """Call one hook plugin by plugin, so that an exception in one stops only that one."""
        everyone = self._pluggy.get_plugins()
        caller = getattr(self._pluggy.hook, hook)
        # Implementations are kept in reverse order of calling.
        for implementation in reversed(caller.get_hookimpls()):
            name = implementation.plugin_name
            alone = self._pluggy.subset_hook_caller(hook, everyone - {implementation.plugin})
            try:
                alone(register=self._registrar(hook, name))
            except _CAUGHT as error:
                self._drop(name, hook, error)

    def _registrar(self, hook: str, owner: str) -> Any:
        if hook == "webscale_register_environments":
            return EnvironmentRegistrar(self.environments, owner)
        registries: dict[str, Registry[Any]] = {
            "webscale_register_converters": self.converters,
            "webscale_register_curricula": self.curricula,
            "webscale_register_augmentations": self.augmentations,
        }
        return Registrar(registries[hook], owner)

    def _drop(self, name: str, stage: str, error: BaseException) -> None:
        """A plugin is in use whole or not at all: what it registered before it failed is withdrawn."""
        self._failures.append(PluginFailure(name, stage, error))
        if self._pluggy.has_plugin(name):
            self._pluggy.unregister(name=name)
        for registry in (self.converters, self.curricula, self.augmentations, self.environments):
            registry.withdraw(name)


def _is_entry_point(candidate: object) -> TypeGuard[EntryPoint]:
    """Once the backport ``importlib_metadata`` is imported, as MLflow does, the standard library gives its class."""
    return all(hasattr(candidate, name) for name in ("name", "group", "value", "load"))


def _origin(candidate: object) -> str:
    if not _is_entry_point(candidate):
        return "given to PluginManager.load"
    if candidate.dist is None:
        return candidate.value
    return f"{candidate.dist.name} {candidate.dist.version}"


def _refuse_misspelt(plugin: object, callers: list[pluggy.HookCaller]) -> None:
    """pluggy's own check_pending() stops at the first plugin that fails it, and does not say which others do."""
    known = set(spec.HOOK_ORDER)
    marked = {caller.name for caller in callers}
    optional = {
        caller.name
        for caller in callers
        if all(hook.optionalhook for hook in caller.get_hookimpls() if hook.plugin is plugin)
    }
    prefixed = {name for name in dir(plugin) if name.startswith(_PREFIX)}
    unknown = sorted((marked | prefixed) - known - optional)
    if unknown:
        msg = f"{unknown[0]!r} is no hook; {name_hint(unknown[0], spec.HOOK_ORDER)}"
        raise PluginError(msg)
    unmarked = sorted((prefixed & known) - marked)
    if unmarked:
        msg = f"{unmarked[0]!r} is not marked; decorate it with sb3_webscale.plugins.hookimpl"
        raise PluginError(msg)
    if not marked:
        hooks = ", ".join(spec.HOOK_ORDER)
        msg = f"it implements no hook; mark functions with sb3_webscale.plugins.hookimpl ({hooks})"
        raise PluginError(msg)
