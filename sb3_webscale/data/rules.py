"""The declarative rule: which columns of a log are episode, state, action, reward and propensity.

A rule is the same object whether it was read from YAML or built in Python, and says nothing about where the log
lies. :mod:`sb3_webscale.data.compiler` turns it into a columnar plan.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import Self

from sb3_webscale.data.durations import parse_duration
from sb3_webscale.data.names import name_hint

__all__ = [
    "BoxAction",
    "DiscreteAction",
    "Episode",
    "Fill",
    "HashState",
    "MeanScale",
    "NumericState",
    "OneHotState",
    "Propensity",
    "RangeScale",
    "Reward",
    "Rule",
    "StateEntry",
]

EndPolicy: TypeAlias = Literal["terminal", "truncated"]
UnfinishedPolicy: TypeAlias = Literal["terminal", "truncated", "drop"]
Scalar: TypeAlias = bool | int | float | str


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Columns: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class _Section(BaseModel):
    """A part of a rule: immutable, and an unknown key is answered with the nearest valid one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    hint = name_hint(str(key), cls.model_fields)
                    kind, context = "unknown_key", {"key": repr(key), "hint": hint}
                    raise PydanticCustomError(kind, "unknown key {key}; {hint}", context)
        return data


class Episode(_Section):
    """How the rows of a log fall into episodes.

    Rows with equal ``key`` are ordered by ``order_by``, then ``tie_by``, then their place in the log. A new episode
    starts at a new key, after a pause longer than ``session_gap``, and after a row flagged terminated or truncated.

    :param key: columns that together identify whose episode a row belongs to
    :param order_by: column of time stamps or numbers that orders the rows of a key
    :param tie_by: columns that order rows with an equal ``order_by``
    :param session_gap: longest pause inside an episode: a duration (``30m``) where ``order_by`` holds time stamps,
        a number where it holds numbers; a pause exactly as long does not end the episode
    :param terminated: column of booleans or 0/1; the row's action ended the episode in a terminal state
    :param truncated: column of booleans or 0/1; the record stops at this row though the episode went on
    :param closed: how an episode ends that the gap closed
    :param unfinished: how an episode ends that was still open when the log stopped
    """

    key: Columns
    order_by: str
    tie_by: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    session_gap: timedelta | float | None = None
    terminated: str | None = None
    truncated: str | None = None
    closed: EndPolicy = "truncated"
    unfinished: UnfinishedPolicy = "truncated"

    @field_validator("session_gap", mode="before")
    @classmethod
    def _read_gap(cls, value: Any) -> Any:
        if isinstance(value, str):
            # ISO 8601 is what the canonical form of a rule holds.
            value = value if value.startswith("P") else parse_duration(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            value = float(value)
        return value

    @field_validator("session_gap")
    @classmethod
    def _positive_gap(cls, value: timedelta | float | None) -> timedelta | float | None:
        zero: timedelta | float = timedelta(0) if isinstance(value, timedelta) else 0.0
        if value is not None and not value > zero:  # type: ignore[operator]
            msg = f"{value} is not a positive pause; give a duration such as '30m' or a number above 0"
            raise ValueError(msg)
        return value


class Fill(_Section):
    """Replace nulls by a value.

    :param fill: the value, of the column's own type
    """

    fill: Scalar


Nulls: TypeAlias = Literal["error", "drop"] | Fill


class MeanScale(_Section):
    """``(x - mean) / std``.

    :param mean: value mapped to 0
    :param std: distance mapped to 1, above 0
    """

    mean: float
    std: float = Field(gt=0.0)


class RangeScale(_Section):
    """``(x - low) / (high - low)``, so that the range becomes 0 to 1.

    :param low: value mapped to 0
    :param high: value mapped to 1, above ``low``
    :param clip: True moves values outside the range to its edge; False makes them an error
    """

    low: float
    high: float
    clip: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            msg = f"low = {self.low} is not below high = {self.high}; give a range with low < high"
            raise ValueError(msg)
        return self


class _State(_Section):
    columns: Columns
    nulls: Nulls = "error"


class NumericState(_State):
    """One float feature a column.

    :param columns: column names or globs; a glob's matches are taken in natural order (``x_2`` before ``x_10``)
    :param nulls: what a null means: ``error``, ``drop`` (the row is left out and counted) or ``{fill: value}``
    :param scale: optional :class:`MeanScale` or :class:`RangeScale`
    """

    encoding: Literal["numeric"] = "numeric"
    scale: MeanScale | RangeScale | None = None


class OneHotState(_State):
    """One 0/1 feature a listed value.

    :param columns: column names or globs
    :param nulls: as for :class:`NumericState`
    :param values: the values, each once, all of one type
    :param unknown: what a value outside the list means: ``error``, or ``zeros`` in every feature
    """

    encoding: Literal["one_hot"] = "one_hot"
    values: tuple[Scalar, ...] = Field(min_length=1)
    unknown: Literal["error", "zeros"] = "error"

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        repeated = next((value for place, value in enumerate(values) if value in values[:place]), None)
        if repeated is not None:
            msg = f"{repeated!r} is listed twice; list each value once"
            raise ValueError(msg)
        return values


class HashState(_State):
    """One 0/1 feature a bucket; a value's bucket is the same on every machine and version.

    :param columns: column names or globs
    :param nulls: as for :class:`NumericState`
    :param buckets: number of buckets a column; different values may share one
    """

    encoding: Literal["hash"] = "hash"
    buckets: int = Field(ge=1, le=65_536)


StateEntry: TypeAlias = Annotated[NumericState | OneHotState | HashState, Field(discriminator="encoding")]


class DiscreteAction(_Section):
    """An action that is one of ``n``.

    :param column: column of integers 0 to n - 1
    :param n: number of actions
    """

    space: Literal["discrete"] = "discrete"
    column: str
    n: int = Field(ge=1, le=2**31 - 1)


class BoxAction(_Section):
    """An action that is a vector of real numbers.

    :param columns: one column (or glob) a component
    :param low: least value, one for all components or one for each
    :param high: greatest value, likewise
    """

    space: Literal["box"] = "box"
    columns: Columns
    low: float | tuple[float, ...]
    high: float | tuple[float, ...]


class Reward(_Section):
    """The reward of a row's own action: a column, or arithmetic over columns.

    :param column: numeric column
    :param expression: see :mod:`sb3_webscale.data.expressions`
    """

    column: str | None = None
    expression: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.column is None) == (self.expression is None):
            msg = "give either 'column' or 'expression', and not both"
            raise ValueError(msg)
        return self


class Propensity(_Section):
    """Probability with which the logging policy chose the row's action.

    :param column: column of numbers in (0, 1]
    """

    column: str


class Rule(_Section):
    """How a log becomes transitions.

    :param name: name of the rule, shown in messages
    :param episode: how rows fall into episodes
    :param state: entries whose features, one after the other, are the observation
    :param action: the action a row records
    :param reward: the reward a row records
    :param propensity: the logging policy's probability of the action, where the log has it
    :param event_id: column that identifies an event; rows that repeat one are dropped and counted
    """

    name: str = Field(min_length=1)
    episode: Episode
    state: tuple[StateEntry, ...] = Field(min_length=1)
    action: Annotated[DiscreteAction | BoxAction, Field(discriminator="space")]
    reward: Reward
    propensity: Propensity | None = None
    event_id: str | None = None

    @classmethod
    def from_yaml(cls, path: str | Path) -> Rule:
        """
        :param path: YAML file
        :return: the rule it holds
        :raises RuleError: naming the file, the key and the fix, when it holds none
        """
        from sb3_webscale.data.rule_file import load_rule

        return load_rule(Path(path))

    def canonical(self) -> str:
        """:return: JSON with sorted keys and every default written out; equal rules give equal text"""
        from sb3_webscale.data.rule_file import canonical_text

        return canonical_text(self)
