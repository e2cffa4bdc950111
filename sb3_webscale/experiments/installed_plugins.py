"""The plugins of this installation, loaded once for the whole process."""

from __future__ import annotations

from functools import cache

from sb3_webscale.plugins import PluginManager

__all__ = ["installed_plugins"]


@cache
def installed_plugins() -> PluginManager:
    """:return: the manager; a broken plugin is warned about once, when it is first needed"""
    return PluginManager.load()
