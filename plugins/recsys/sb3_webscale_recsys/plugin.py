"""The hooks of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sb3_webscale.plugins import hookimpl
from sb3_webscale_recsys.rule import open_bandit_converter

if TYPE_CHECKING:
    from sb3_webscale.data import Converter
    from sb3_webscale.plugins import EnvironmentRegistrar, Registrar

__all__ = ["webscale_register_converters", "webscale_register_environments"]


@hookimpl
def webscale_register_converters(register: Registrar[Converter]) -> None:
    """Register ``recsys.open_bandit``."""
    register.add("recsys.open_bandit", open_bandit_converter())


@hookimpl
def webscale_register_environments(register: EnvironmentRegistrar) -> None:
    """Register ``OpenBandit-v0``; its sessions end by themselves, so it has no time limit."""
    register.add("OpenBandit-v0", "sb3_webscale_recsys.environment:OpenBanditEnv")
