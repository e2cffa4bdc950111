"""Plugins: how a separately installed distribution adds converters, curricula, augmentations and environments.

A plugin is a module (or object) whose functions are marked with :data:`hookimpl` and named as the specifications in
:mod:`sb3_webscale.plugins.spec`. It is found through the entry-point group ``sb3_webscale``::

    [project.entry-points.sb3_webscale]
    recsys = "sb3_webscale_recsys.plugin"
"""

from __future__ import annotations

from sb3_webscale.plugins.manager import PluginFailure, PluginInfo, PluginManager
from sb3_webscale.plugins.marker import NAME, hookimpl
from sb3_webscale.plugins.protocols import Augmentation, Curriculum
from sb3_webscale.plugins.registry import EnvironmentRegistrar, EnvironmentRegistry, Registrar, Registry

__all__ = [
    "NAME",
    "Augmentation",
    "Curriculum",
    "EnvironmentRegistrar",
    "EnvironmentRegistry",
    "PluginFailure",
    "PluginInfo",
    "PluginManager",
    "Registrar",
    "Registry",
    "hookimpl",
]
