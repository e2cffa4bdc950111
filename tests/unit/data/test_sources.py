"""Sources: one log from a file, a directory or a glob, Parquet or CSV, and refusals that say what is valid."""

from __future__ import annotations

import gzip
from datetime import datetime, timezone
from pathlib import Path

import polars as pl
import pytest

from sb3_webscale.data import open_source
from sb3_webscale.errors import DataError

FRAME = pl.DataFrame(
    {
        "time": [datetime(2020, 1, 1, hour, tzinfo=timezone.utc) for hour in range(4)],
        "value": [0.5, 1.0, 1.5, 2.0],
        "count": [1, 2, 3, 4],
        "name": ["a", "b", "c", "d"],
    }
)


def read(uri: str | Path) -> pl.DataFrame:
    return open_source(uri).scan().collect()


def write_csv(path: Path) -> None:
    text = FRAME.write_csv().encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_csv_has_types(tmp_path: Path, name: str) -> None:
    write_csv(tmp_path / name)
    frame = read(tmp_path / name)
    assert frame.schema["time"] == pl.Datetime(frame.schema["time"].time_unit, "UTC")
    assert frame["time"].dt.timestamp("us").to_list() == FRAME["time"].dt.timestamp("us").to_list()
    assert frame.drop("time").equals(FRAME.drop("time"))


def test_csv_types_are_taken_from_every_row(tmp_path: Path) -> None:
    lines = ["x", *["1"] * 5000, "2.5"]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    assert read(tmp_path / "log.csv")["x"].sum() == 5002.5


def test_parquet(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet").equals(FRAME)
    assert read(f"file://{tmp_path}/log.parquet").equals(FRAME)


@pytest.mark.parametrize("pattern", ["", "*.parquet", "**/*.parquet"])
def test_directory_and_glob_are_one_log_in_the_order_of_paths(tmp_path: Path, pattern: str) -> None:
    for part in (1, 0):
        FRAME[part * 2 : part * 2 + 2].write_parquet(tmp_path / f"part_{part}.parquet")
    (tmp_path / "README.md").write_text("not data", encoding="utf-8")
    source = open_source(tmp_path / pattern)
    assert source.scan().collect().equals(FRAME)
    assert [file.name for file in source.files] == ["part_0.parquet", "part_1.parquet"]


def test_missing_file_is_named_with_the_working_directory() -> None:
    with pytest.raises(DataError, match=r"'nowhere\.parquet' does not exist \(working directory /.*\)"):
        open_source("nowhere.parquet")


def test_unknown_ending_lists_valid_ones(tmp_path: Path) -> None:
    (tmp_path / "log.parqet").write_bytes(b"x")
    with pytest.raises(DataError, match=r"log\.parqet.*did you mean '\.parquet'\?.*\.csv, \.csv\.gz, \.parquet"):
        open_source(tmp_path / "log.parqet")


def test_unknown_scheme_is_named() -> None:
    with pytest.raises(DataError, match="scheme 's3'"):
        open_source("s3://bucket/log.parquet")


def test_directory_without_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file with a known ending; valid: \.parquet"):
        open_source(tmp_path)


def test_mixed_kinds_are_refused(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet")
    write_csv(tmp_path / "b.csv")
    with pytest.raises(DataError, match=r"mixes files of \.csv, \.parquet"):
        open_source(tmp_path)


@pytest.mark.parametrize(("name", "content"), [("log.parquet", b""), ("log.parquet", b"not Parquet"), ("log.csv", b"")])
def test_unreadable_content_names_the_source(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        open_source(tmp_path / name).scan()
