"""Every Python example of the README and of docs/ runs, page by page, each page in one namespace."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[tuple[int, str]]:
    text = page.read_text(encoding="utf-8")
    return [(text[: match.start(1)].count("\n"), match[1]) for match in EXAMPLE.finditer(text)]


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # What the examples call "your log" and "your rule".
    shutil.copy(ROOT / "zoo/data/open_bandit/bts.parquet", "log.parquet")
    shutil.copy(ROOT / "plugins/recsys/sb3_webscale_recsys/rules/open_bandit.yml", "open_bandit.yml")
    namespace: dict[str, object] = {"__name__": "example"}
    for line, source in examples(page):
        # Line numbers of a failure are those of the page.
        exec(compile("\n" * line + source, str(page), "exec"), namespace)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"
