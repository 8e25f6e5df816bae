"""Every Python and shell snippet of README.md, CONTRIBUTING.md and docs/ runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.snippets import DOCUMENTS, ROOT, SHELL, blocks, name_of
from tests.helpers.warm import run_warm

RUNNER = "tests.helpers.snippets"
# Blocks that cannot run here: a machine, a dataset or a download is missing. Each block gives the reason.
NOT_RUN = {
    ("README.md", "make demo    # sets up ."),
    ("README.md", "python3 -m venv .venv &&"),
    ("docs/datasets.md", "$ levelfield data overla"),
    ("docs/datasets.md", "$ levelfield data shift "),
    ("docs/engines.md", "#!/bin/bash\n#SBATCH --no"),
    ("docs/engines.md", "pip install 'levelfield["),
    ("docs/guides/choose-model.md", "levelfield models photos"),
    ("docs/guides/landmarks.md", "levelfield models releva"),
    ("docs/guides/landmarks.md", "levelfield models roxfor"),
    ("docs/index.md", "pip install '.[offline-w"),
    ("docs/models.md", "python -m benchmarks.spe"),
    ("docs/protocol.md", "levelfield preregister e"),
    ("docs/protocol.md", "levelfield run exp.yaml "),
    ("docs/protocol.md", "levelfield sweep exp.yam"),
    ("docs/leaderboard.md", "levelfield run my-compar"),
    ("docs/leaderboard.md", "pip install '.[offline-w"),
    ("docs/leaderboard.md", "python -m tools.contribu"),
    ("docs/reality-check.md", "git clone ADDRESS levelf"),
    ("docs/reality-check.md", "levelfield plan results/"),
    ("docs/reality-check.md", "results/reality_check/ru"),
    ("docs/reports.md", "$ pip install 'levelfiel"),
    ("docs/search.md", "$ curl -X PUT http://qdr"),
    ("docs/search.md", "$ levelfield serve --ind"),
    ("docs/search.md", "levelfield export open_c"),
    ("docs/search.md", "levelfield index photos/"),
    ("docs/speed.md", "make speed SPEED=--quick"),
    ("docs/store.md", "from levelfield import d"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_every_snippet_runs(kind: str, tmp_path: Path) -> None:
    done = run_warm(["-m", RUNNER, kind, str(tmp_path)], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    failures = json.loads(done.stdout.splitlines()[-1])
    assert not failures, "\n".join(f"{document}:\n{failure}" for document, failure in failures.items())


def test_what_does_not_run_is_known_and_says_why() -> None:
    skipped = [(document, block) for document in DOCUMENTS for block in blocks(document) if block.not_run]
    assert {(name_of(document), block.text[:24]) for document, block in skipped} == NOT_RUN
    assert all(len(block.not_run or "") > 10 for _, block in skipped)


def test_code_is_marked_as_code() -> None:
    """A fence without a language would hide its commands from the runner."""
    for document in DOCUMENTS:
        for block in blocks(document):
            if not block.language:
                first = block.text.split()[0] if block.text.split() else ""
                assert first not in ("levelfield", "python", "import", "from", "$", "make", "pip"), (
                    f"{name_of(document)}, line {block.line}: mark this block as one of {SHELL} or python"
                )


def test_the_runner_sees_every_document() -> None:
    assert len(DOCUMENTS) > 10
    assert sum(block.language == "python" for document in DOCUMENTS for block in blocks(document)) > 15
