"""Registries: named objects, each with the plugin it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import gymnasium
from gymnasium.envs.registration import EnvSpec

from sb3_webscale.data.names import name_hint
from sb3_webscale.errors import PluginError

__all__ = ["EnvironmentRegistrar", "EnvironmentRegistry", "Registrar", "Registry"]

T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


@dataclass(frozen=True)
class _Entry(Generic[T]):
    value: T
    owner: str


class Registry(Mapping[str, T]):
    """Named objects of one kind, a read-only mapping for those who use them.

    :param kind: what the objects are, for messages
    :param protocol: runtime-checkable protocol that each must satisfy
    """

    def __init__(self, kind: str, protocol: type[Any]) -> None:
        self.kind = kind
        self._protocol = protocol
        self._entries: dict[str, _Entry[T]] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            msg = f"no {self.kind} is named {name!r}; {name_hint(name, self._entries)}"
            raise UnknownNameError(msg)
        return self._entries[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def owner(self, name: str) -> str:
        """
        :param name: name of a registered object
        :return: name of the plugin that registered it
        """
        self[name]
        return self._entries[name].owner

    def add(self, name: str, value: T, owner: str) -> None:
        """
        :param name: lower-case words joined by dots, such as ``recsys.open_bandit``
        :param value: the object
        :param owner: name of the plugin that it comes from
        :raises PluginError: when the name is taken or malformed, or the object lacks a method
        """
        if not _NAME.fullmatch(name):
            msg = f"plugin {owner!r}: {self.kind} name {name!r} is malformed; use lower-case words joined by dots"
            raise PluginError(msg)
        if name in self._entries:
            holder = self._entries[name].owner
            msg = f"plugin {owner!r}: {self.kind} {name!r} is already registered by plugin {holder!r}; rename one"
            raise PluginError(msg)
        missing = sorted(method for method in _methods(self._protocol) if not callable(getattr(value, method, None)))
        if missing or isinstance(value, type):
            lack = f"lacks {', '.join(missing)}()" if missing else "is a class; register an instance"
            msg = f"plugin {owner!r}: {self.kind} {name!r} ({value!r}) {lack}; see {self._protocol.__name__}"
            raise PluginError(msg)
        self._entries[name] = _Entry(value, owner)

    def withdraw(self, owner: str) -> None:
        """
        :param owner: name of a plugin, all of whose objects are removed
        """
        self._entries = {name: entry for name, entry in self._entries.items() if entry.owner != owner}


class UnknownNameError(PluginError, KeyError):
    """No object of that name is registered. A KeyError too, so that mappings behave as ever."""

    def __str__(self) -> str:
        return str(self.args[0])


def _methods(protocol: type[Any]) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_") and callable(getattr(protocol, name))]


@dataclass(frozen=True)
class Registrar(Generic[T]):
    """What a hook receives to register objects with.

    :param registry: where they go
    :param owner: name of the plugin whose hook is being called
    """

    registry: Registry[T]
    owner: str

    def add(self, name: str, value: T) -> None:
        """
        :param name: lower-case words joined by dots; start with the plugin's own name
        :param value: the object; see the hook for what it must be
        :raises PluginError: when the name is taken or malformed, or the object lacks a method
        """
        self.registry.add(name, value, self.owner)


@dataclass
class EnvironmentRegistry(Mapping[str, EnvSpec]):
    """Environment ids that plugins registered with Gymnasium, each with its Gymnasium spec."""

    _owners: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, env_id: str) -> EnvSpec:
        if env_id not in self._owners:
            msg = f"no plugin registered the environment {env_id!r}; {name_hint(env_id, self._owners)}"
            raise UnknownNameError(msg)
        return gymnasium.registry[env_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, env_id: str) -> str:
        """
        :param env_id: a registered id
        :return: name of the plugin that registered it
        """
        self[env_id]
        return self._owners[env_id]

    def add(self, env_id: str, entry_point: str, owner: str, **settings: Any) -> None:
        """
        :param env_id: Gymnasium id, such as ``OpenBandit-v0``
        :param entry_point: ``module:Class``; Gymnasium is process-wide, so the same pair may be registered again
        :param owner: name of the plugin
        :param settings: further arguments of :func:`gymnasium.register`
        :raises PluginError: when the id is taken by another plugin or another entry point
        """
        taken = gymnasium.registry.get(env_id)
        if env_id in self._owners or (taken is not None and taken.entry_point != entry_point):
            holder = f"plugin {self._owners[env_id]!r}" if env_id in self._owners else f"{taken and taken.entry_point}"
            msg = f"plugin {owner!r}: environment {env_id!r} is already registered by {holder}; rename one"
            raise PluginError(msg)
        if taken is None:
            gymnasium.register(env_id, entry_point=entry_point, **settings)
        self._owners[env_id] = owner

    def withdraw(self, owner: str) -> None:
        """
        :param owner: name of a plugin, all of whose environments are removed, from Gymnasium too
        """
        for env_id in [env_id for env_id, name in self._owners.items() if name == owner]:
            del self._owners[env_id]
            gymnasium.registry.pop(env_id, None)


@dataclass(frozen=True)
class EnvironmentRegistrar:
    """What the environment hook receives.

    :param registry: where the ids are kept
    :param owner: name of the plugin whose hook is being called
    """

    registry: EnvironmentRegistry
    owner: str

    def add(self, env_id: str, entry_point: str, **settings: Any) -> None:
        """
        :param env_id: Gymnasium id, such as ``OpenBandit-v0``
        :param entry_point: ``module:Class``
        :param settings: further arguments of :func:`gymnasium.register`, such as ``max_episode_steps``
        :raises PluginError: when the id is taken
        """
        self.registry.add(env_id, entry_point, self.owner, **settings)
