"""Finding a rule's columns in a log, and the errors when they are not there or of another type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import polars as pl

from sb3_webscale.data.names import name_hint
from sb3_webscale.errors import RuleError

__all__ = ["Columns"]


@dataclass(frozen=True)
class Columns:
    """The columns of one log, looked up for one rule.

    :param schema: column name to type
    :param where: names the rule and the source in messages
    """

    schema: pl.Schema
    where: str

    def one(self, name: str, key: str) -> str:
        """
        :param name: column name
        :param key: path of the rule's key
        :return: the name
        :raises RuleError: when the log has no such column; the nearest name is suggested
        """
        if name not in self.schema:
            msg = f"{self.where}: {key}: the log has no column {name!r}; {name_hint(name, self.schema)}"
            raise RuleError(msg)
        return name

    def several(self, patterns: Sequence[str], key: str) -> list[str]:
        """
        :param patterns: column names or globs (``*``, ``?``, ``[...]``)
        :param key: path of the rule's key
        :return: the columns, pattern after pattern; matches of a glob in natural order, so that the layout of an
            observation does not depend on the order of a file's columns
        :raises RuleError: when a pattern matches nothing, or a column is matched twice
        """
        found: list[str] = []
        for pattern in patterns:
            if pattern in self.schema or not any(mark in pattern for mark in "*?["):
                found.append(self.one(pattern, key))
                continue
            matches = sorted((name for name in self.schema if fnmatchcase(name, pattern)), key=_natural)
            if not matches:
                msg = f"{self.where}: {key}: glob {pattern!r} matches no column; {name_hint(pattern, self.schema)}"
                raise RuleError(msg)
            found.extend(matches)
        repeated = next((name for place, name in enumerate(found) if name in found[:place]), None)
        if repeated is not None:
            msg = f"{self.where}: {key}: column {repeated!r} is named twice; name each column once"
            raise RuleError(msg)
        return found

    def number(self, name: str, key: str) -> str:
        """
        :param name: column name
        :param key: path of the rule's key
        :return: the name
        :raises RuleError: when the column is missing, or holds neither numbers nor booleans
        """
        dtype = self.schema[self.one(name, key)]
        if not (dtype.is_numeric() or dtype == pl.Boolean):
            msg = f"{self.where}: {key}: column {name!r} holds {dtype}; a column of numbers is needed"
            raise RuleError(msg)
        return name


def _natural(name: str) -> list[tuple[int, int, str]]:
    pieces = re.split(r"(\d+)", name)
    return [(1, int(piece), piece) if piece.isdecimal() else (0, 0, piece) for piece in pieces]
