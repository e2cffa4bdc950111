"""The console that commands print to."""

from __future__ import annotations

from rich.console import Console

__all__ = ["make_console"]

_WIDTH_OF_FILES = 200


def make_console() -> Console:
    """:return: a console as wide as the terminal, or wide enough for whole run ids where there is none"""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH_OF_FILES)
