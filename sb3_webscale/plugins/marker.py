"""The project's name towards pluggy, and the two markers that go with it."""

from __future__ import annotations

import pluggy

__all__ = ["NAME", "hookimpl", "hookspec"]

NAME = "sb3_webscale"
"""Name of the pluggy project and of the entry-point group."""

hookimpl = pluggy.HookimplMarker(NAME)
"""Marks a plugin's function as the implementation of a hook."""

hookspec = pluggy.HookspecMarker(NAME)
