"""The state of a git work tree is captured whole: clean, changed, with new files, and outside a repository."""

from __future__ import annotations

import subprocess
from hashlib import sha256

import pytest

from sb3_webscale.reproducibility import code_version as module
from sb3_webscale.reproducibility.code_version import code_version


@pytest.fixture
def git(tmp_path, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    root = tmp_path / "project"
    root.mkdir()

    def git(*arguments):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    (root / "a.py").write_text("one\n")
    git("add", "a.py")
    git("commit", "-q", "-m", "first")
    git.root = root
    return git


def test_a_clean_tree(git):
    version = code_version(git.root)
    assert version.commit == git("rev-parse", "HEAD")
    assert not version.dirty
    assert version.as_dict() == {"commit": version.commit, "dirty": False, "changes_sha256": None}


def test_a_directory_below_the_root(git):
    (git.root / "sub").mkdir()
    assert code_version(git.root / "sub").root == str(git.root)


def test_changes_give_a_patch_that_restores_them(git):
    (git.root / "a.py").write_text("two\n")
    (git.root / "new é.txt").write_bytes(b"new")
    (git.root / "staged.bin").write_bytes(bytes(range(256)))
    git("add", "staged.bin")
    version = code_version(git.root)
    assert version.dirty
    assert version.untracked == {"new é.txt": sha256(b"new").hexdigest()}
    patch = git.root.parent / "changes.patch"
    patch.write_bytes(version.patch_document.encode("utf-8", "surrogateescape"))
    assert f"# untracked: {sha256(b'new').hexdigest()} new é.txt" in patch.read_text()
    git("reset", "-q", "--hard")
    git("apply", str(patch))
    assert (git.root / "a.py").read_text() == "two\n"
    assert (git.root / "staged.bin").read_bytes() == bytes(range(256))


def test_only_new_files_make_a_tree_dirty_and_ignored_ones_do_not(git):
    (git.root / ".gitignore").write_text("*.log\n")
    git("add", ".gitignore")
    git("commit", "-q", "-m", "second")
    (git.root / "x.log").write_text("")
    assert not code_version(git.root).dirty
    (git.root / "b.py").write_text("")
    version = code_version(git.root)
    assert (version.dirty, version.patch, list(version.untracked)) == (True, "", ["b.py"])


def test_different_changes_have_different_hashes(git):
    hashes = set()
    for text in ("two\n", "three\n"):
        (git.root / "a.py").write_text(text)
        hashes.add(code_version(git.root).as_dict()["changes_sha256"])
    assert len(hashes) == 2


def test_a_repository_without_a_commit(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "a.py").write_text("")
    version = code_version(tmp_path)
    assert (version.commit, version.dirty) == (None, True)


def test_outside_a_repository(tmp_path):
    version = code_version(tmp_path)
    assert (version.root, version.commit, version.dirty) == (None, None, False)


def test_without_git(git, monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert code_version(git.root).commit is None
