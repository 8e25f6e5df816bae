"""The records in results/ are complete, and README and the pages made of them agree with them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from levelfield.api import verify

ROOT = Path(__file__).parent.parent
ARENAS = sorted(ledger.parent for ledger in (ROOT / "results").glob("*/ledger.jsonl"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.slow
@pytest.mark.parametrize("arena", ARENAS, ids=lambda directory: directory.name)
def test_an_arena_passes_verification(arena: Path) -> None:
    assert verify(arena) == []  # records, names, report tables: everything that `levelfield verify` checks


def test_every_folder_with_records_is_verified() -> None:
    assert {arena.name for arena in ARENAS} == {
        file.parent.name for file in (ROOT / "results").glob("*/experiment.json")
    }
    assert len(ARENAS) >= 5


def test_the_records_are_few_files_and_small() -> None:
    sizes = [file.stat().st_size for file in (ROOT / "results").rglob("*") if file.is_file()]
    assert len(ARENAS) >= 5
    assert len(sizes) < 300 and sum(sizes) < 45e6


@pytest.mark.slow
def test_the_pages_and_the_readme_say_what_the_records_say(tmp_path: Path) -> None:
    readme = shutil.copy(ROOT / "README.md", tmp_path)
    command = [sys.executable, str(ROOT / "results" / "reality_check" / "page.py"), "--docs", str(tmp_path)]
    done = subprocess.run([*command, "--readme", readme], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for published in ("docs/reality-check.md", "docs/which-loss.md", "README.md"):
        name = Path(published).name
        new, old = (tmp_path / name).read_text(), (ROOT / published).read_text()
        assert NUMBER.sub("#", new) == NUMBER.sub("#", old), f"{published} is stale: make reality-check"
        # another processor may round the last digit differently
        numbers = [[float(number) for number in NUMBER.findall(text)] for text in (new, old)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.011), f"{published} is stale: make reality-check"
