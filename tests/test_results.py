"""What is published in results/ is whole, and the page that quotes it says what the records say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from levelfield.compare import verify

ROOT = Path(__file__).parent.parent
ARENAS = sorted(ledger.parent for ledger in (ROOT / "results").glob("*/ledger.jsonl"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.parametrize("arena", ARENAS, ids=lambda folder: folder.name)
def test_an_arena_has_no_blemish(arena: Path) -> None:
    assert verify(arena) == []


def test_the_page_and_the_readme_say_what_the_records_say(tmp_path: Path) -> None:
    readme = shutil.copy(ROOT / "README.md", tmp_path)
    command = [sys.executable, str(ROOT / "tools" / "reality_check" / "page.py"), "--docs", str(tmp_path)]
    done = subprocess.run([*command, "--readme", readme], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, published in {"reality-check.md": "docs/reality-check.md", "README.md": "README.md"}.items():
        new, old = (tmp_path / name).read_text(), (ROOT / published).read_text()
        assert NUMBER.sub("#", new) == NUMBER.sub("#", old), f"{published} is stale: make reality-check"
        # another processor may round the last digit otherwise
        numbers = [[float(number) for number in NUMBER.findall(text)] for text in (new, old)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.011), f"{published} is stale: make reality-check"
