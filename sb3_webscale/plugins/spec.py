"""Every hook that a plugin can implement.

Hooks fire once, while :meth:`sb3_webscale.plugins.PluginManager.load` runs, kind after kind in the order below; within
a kind, plugin after plugin: built-ins first, then plugins by the alphabet of their names, unless an implementation is
marked ``tryfirst`` or ``trylast``. What a hook registers is looked up once and then called directly, for batches.
"""

from __future__ import annotations

from sb3_webscale.data.converter import Converter
from sb3_webscale.plugins.marker import hookspec
from sb3_webscale.plugins.protocols import Augmentation, Curriculum
from sb3_webscale.plugins.registry import EnvironmentRegistrar, Registrar

__all__ = [
    "HOOK_ORDER",
    "webscale_register_augmentations",
    "webscale_register_converters",
    "webscale_register_curricula",
    "webscale_register_environments",
]

HOOK_ORDER = (
    "webscale_register_converters",
    "webscale_register_curricula",
    "webscale_register_augmentations",
    "webscale_register_environments",
)
"""The hooks in the order in which they fire."""


@hookspec
def webscale_register_converters(register: Registrar[Converter]) -> None:
    """Register converters of logs. Fires first.

    :param register: ``register.add(name, converter)``; a :class:`~sb3_webscale.data.converter.Converter` returns
        transitions with float32 observations (n, n_features), int64 (n,) or float32 (n, action_dim) actions, float32
        (n,) rewards
    :return: nothing

    .. versionadded:: 0.1
    """


@hookspec
def webscale_register_curricula(register: Registrar[Curriculum]) -> None:
    """Register curricula. Fires after all converters are registered.

    :param register: ``register.add(name, curriculum)``; a :class:`~sb3_webscale.plugins.protocols.Curriculum` gives
        float64 (n,) weights for n transitions
    :return: nothing

    .. versionadded:: 0.1
    """


@hookspec
def webscale_register_augmentations(register: Registrar[Augmentation]) -> None:
    """Register augmentations. Fires after all curricula are registered.

    :param register: ``register.add(name, augmentation)``; an
        :class:`~sb3_webscale.plugins.protocols.Augmentation` gives n transitions for n transitions
    :return: nothing

    .. versionadded:: 0.1
    """


@hookspec
def webscale_register_environments(register: EnvironmentRegistrar) -> None:
    """Register environments with Gymnasium. Fires last.

    :param register: ``register.add(id, "module:Class", **settings)``; the settings are those of
        :func:`gymnasium.register`
    :return: nothing

    .. versionadded:: 0.1
    """
