"""The errors that sb3_webscale raises on purpose, under one root.

A message states the parameter, the value it had, the rule it broke and how to fix it.
"""

from __future__ import annotations

__all__ = [
    "ActorError",
    "BufferStateError",
    "ConfigError",
    "DataError",
    "InvalidInputError",
    "MissingExtraError",
    "PluginError",
    "ReproductionError",
    "RuleError",
    "SnapshotFormatError",
    "SpillError",
    "WebscaleError",
]


class WebscaleError(Exception):
    """Root of every error that sb3_webscale raises on purpose."""


class ActorError(WebscaleError, RuntimeError):
    """The other side of an actor's channel is gone, or does not keep up."""


class InvalidInputError(WebscaleError, ValueError):
    """An argument has a value that its rule forbids."""


class BufferStateError(InvalidInputError):
    """A buffer was asked for something that its present content cannot give."""


class ConfigError(InvalidInputError):
    """A training configuration has an unknown key or a forbidden value."""


class RuleError(InvalidInputError):
    """A conversion rule is malformed, or does not fit the log it is applied to."""


class DataError(InvalidInputError):
    """The content of a log breaks its rule: nulls, non-finite values, actions outside the space."""


class SnapshotFormatError(InvalidInputError):
    """A pickle or snapshot was written in a format that this version cannot read."""


class SpillError(WebscaleError, OSError):
    """A file of a buffer that is larger than memory cannot be written or read."""


class PluginError(WebscaleError):
    """A plugin cannot be found, loaded, or registers something invalid."""


class MissingExtraError(WebscaleError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class ReproductionError(WebscaleError):
    """A tracked run cannot be re-run, or its re-run gave different final weights."""
