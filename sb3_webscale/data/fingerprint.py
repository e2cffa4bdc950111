"""A fingerprint of data: the content of files and the rule that reads them, in one digest."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

__all__ = ["data_fingerprint"]

_CHUNK = 1 << 20


def data_fingerprint(files: Sequence[Path], rule: str) -> str:
    """
    :param files: the files, in the order in which they are read; their names do not count, their bytes do
    :param rule: canonical text of the rule
    :return: 64 hexadecimal digits, equal when content and rule are equal
    """
    total = sha256(b"sb3-webscale data 1\n")
    total.update(sha256(rule.encode()).digest())
    for file in files:
        digest = sha256()
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
        total.update(digest.digest())
    return total.hexdigest()
