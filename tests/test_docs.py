"""The documentation builds offline without a warning, and every loss has its page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import levelfield as lf
from tests.helpers.built_in import built_in_names

pytest.importorskip("material")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    settings = {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_no_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', text)
        assert not loaded, f"{page.name} loads {loaded}"


@pytest.mark.slow
def test_every_loss_has_a_page_with_formula_and_field(site: Path) -> None:
    formulas = yaml.safe_load((ROOT / "tools" / "docs" / "formulas.yaml").read_text(encoding="utf-8"))
    registry = lf.losses.registry
    own = set(built_in_names(registry))
    assert formulas.keys() == own
    for name in own:
        text = (site / "losses" / f"{name}.html").read_text(encoding="utf-8")
        assert (site / "losses" / f"{name}.png").stat().st_size > 5_000
        _, formula = text.split('<div class="formula">')
        drawn = formula[: formula.index("</div>")]
        assert drawn.startswith("<svg") and drawn.count("<use ") + drawn.count("<path ") > 10, (
            "glyphs as curves"
        )
        for option in registry[name].card.space:
            assert option in text


@pytest.mark.slow
def test_the_reference_has_docstrings(site: Path) -> None:
    text = (site / "reference" / "levelfield.track.html").read_text(encoding="utf-8")
    assert "Interface of a tracker, a tool that shows experiments." in text
    assert ":class:" not in text
