"""Which code a run was made with: the git commit, and what the work tree adds to it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

__all__ = ["CodeVersion", "code_version"]

# Whatever the user's git shows diffs with, the patch must be one that `git apply` takes.
_PLAIN_DIFF = ("--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
_GIT_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class CodeVersion:
    """State of the git repository that holds a directory.

    :param root: top directory of the repository; None outside one, or without git
    :param commit: commit checked out, hexadecimal; None outside a repository, or before its first commit
    :param patch: ``git diff HEAD`` with binary files; empty when nothing tracked is changed
    :param untracked: files that git neither tracks nor ignores, with the sha256 of each
    """

    root: str | None
    commit: str | None
    patch: str
    untracked: dict[str, str]

    @property
    def dirty(self) -> bool:
        """:return: whether the work tree differs from the commit"""
        return bool(self.patch or self.untracked)

    @property
    def patch_document(self) -> str:
        """:return: the patch, preceded by the list of untracked files as comments that ``git apply`` skips"""
        listing = "".join(f"# untracked: {digest} {name}\n" for name, digest in self.untracked.items())
        return listing + self.patch

    def as_dict(self) -> dict[str, str | bool | None]:
        """:return: commit, whether dirty, and one hash over all that differs from the commit"""
        changes = sha256(self.patch_document.encode("utf-8", "surrogateescape")).hexdigest() if self.dirty else None
        return {"commit": self.commit, "dirty": self.dirty, "changes_sha256": changes}


def code_version(directory: Path) -> CodeVersion:
    """Ask git about the repository that holds a directory.

    :param directory: any directory, inside a repository or not
    :return: its state; all empty outside a repository or when git is not installed
    """
    root = _git(directory, "rev-parse", "--show-toplevel") if shutil.which("git") else None
    if not root:
        return CodeVersion(root=None, commit=None, patch="", untracked={})
    top = Path(root.strip())
    commit = _git(top, "rev-parse", "--verify", "--quiet", "HEAD")
    patch = _git(top, "diff", *_PLAIN_DIFF, "HEAD") if commit else ""
    names = (_git(top, "ls-files", "--others", "--exclude-standard", "-z") or "").split("\0")
    untracked = {name: _file_hash(top / name) for name in sorted(names) if name}
    return CodeVersion(root=str(top), commit=commit.strip() if commit else None, patch=patch or "", untracked=untracked)


def _git(directory: Path, *arguments: str) -> str | None:
    """:return: what git printed, or None when it failed"""
    done = subprocess.run(
        ["git", "--no-optional-locks", "-c", "core.quotePath=false", *arguments],
        cwd=directory,
        capture_output=True,
        timeout=_GIT_TIMEOUT_SECONDS,
        check=False,
    )
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def _file_hash(path: Path) -> str:
    if not path.is_file():
        return "not-a-file"
    digest = sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
