"""Where a log lies: files on disk, opened as lazy Polars frames.

The ending of the name chooses the reader. A source is a file, a directory (every file below it with one known
ending) or a glob; several files are read as one log, in the order of their paths.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlparse

import polars as pl

from sb3_webscale.data.names import name_hint
from sb3_webscale.errors import DataError

__all__ = ["READERS", "FileSource", "Source", "open_source"]


class Source(Protocol):
    """A log that can be read any number of times, each time with the same rows in the same order."""

    @property
    def uri(self) -> str:
        """What the user called it; shown in messages."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files it consists of, in the order in which they are read."""

    def scan(self) -> pl.LazyFrame:
        """
        :return: the log's rows, unread as yet
        :raises DataError: when the content cannot be read
        """


def _scan_parquet(files: list[Path]) -> pl.LazyFrame:
    return pl.scan_parquet(files, glob=False)


def _scan_csv(files: list[Path]) -> pl.LazyFrame:
    # Types are inferred from every row: a guess from the first ones fails on, or misreads, what comes later.
    return pl.scan_csv(files, try_parse_dates=True, infer_schema_length=None, glob=False)


READERS: Mapping[str, Callable[[list[Path]], pl.LazyFrame]] = {
    ".parquet": _scan_parquet,
    ".csv": _scan_csv,
    ".csv.gz": _scan_csv,
}
"""Ending of a file's name to its reader."""


@dataclass(frozen=True)
class FileSource:
    """Files with one ending, read as one log.

    :param uri: what the user called it
    :param files: the files, in the order in which they are read
    :param ending: key of :data:`READERS`
    """

    uri: str
    files: tuple[Path, ...]
    ending: str

    def scan(self) -> pl.LazyFrame:
        """
        :return: the log's rows, unread as yet
        :raises DataError: when the files are not what their names say, or disagree in their columns
        """
        try:
            frame = READERS[self.ending](list(self.files))
            frame.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as error:
            msg = f"source {self.uri!r} cannot be read as {self.ending}: {error}"
            raise DataError(msg) from error
        return frame


def open_source(uri: str | Path) -> Source:
    """
    :param uri: path, ``file://`` address, directory or glob
    :return: the source it names; nothing but names has been read yet
    :raises DataError: when there is no such file, or its ending has no reader
    """
    text = str(uri)
    scheme, separator, _ = text.partition("://")
    if separator and scheme != "file":
        msg = f"source {text!r} has the scheme {scheme!r}; valid: a path, or file://"
        raise DataError(msg)
    path = unquote(urlparse(text).path) if separator else text
    files = _expand(Path(path))
    if not files:
        msg = f"source {text!r} does not exist (working directory {Path.cwd()}); give a file, a directory or a glob"
        raise DataError(msg)
    endings = {_ending(file) for file in files}
    if len(endings) > 1:
        msg = f"source {text!r} mixes files of {', '.join(sorted(endings))}; give a glob that matches one kind"
        raise DataError(msg)
    return FileSource(text, tuple(files), endings.pop())


def _expand(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and _find_ending(file))
        if not found:
            msg = f"source directory {str(path)!r} holds no file with a known ending; valid: {', '.join(READERS)}"
            raise DataError(msg)
        return found
    return sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())


def _find_ending(file: Path) -> str | None:
    return next((ending for ending in sorted(READERS, key=len, reverse=True) if file.name.endswith(ending)), None)


def _ending(file: Path) -> str:
    ending = _find_ending(file)
    if ending is None:
        msg = f"source file {str(file)!r} has no reader for its ending; {name_hint(file.suffix, READERS)}"
        raise DataError(msg)
    return ending
