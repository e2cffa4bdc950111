"""``sb3-webscale plugins list``."""

from __future__ import annotations

import argparse

from rich.table import Table

from sb3_webscale.commands.console import make_console
from sb3_webscale.experiments.installed_plugins import installed_plugins

__all__ = ["list_command"]


def list_command(arguments: argparse.Namespace) -> None:
    """List plugins, what each registered, and those that are left out because they are broken.

    :param arguments: parsed command line
    """
    console = make_console()
    manager = installed_plugins()
    table = Table("plugin", "from", "registers")
    registries = (manager.converters, manager.curricula, manager.augmentations, manager.environments)
    for plugin in manager.plugins:
        registered = [name for registry in registries for name in registry if registry.owner(name) == plugin.name]
        table.add_row(plugin.name, plugin.distribution, ", ".join(registered))
    console.print(table)
    for name in manager.disabled:
        console.print(f"disabled: {name}", highlight=False)
    for failure in manager.failures:
        console.print(f"left out: {failure}", highlight=False, style="red")
