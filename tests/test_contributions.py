"""Plans and archives of others: what is accepted, and one clear line for what is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.contributions import Base, Rules, check, main

import levelfield as lf
from levelfield.api import archive
from levelfield.records import Preregistration, environment, write_preregistration
from tests.conftest import tiny_values

pytestmark = pytest.mark.slow  # an experiment, end to end

ROOT = Path(__file__).parent.parent
LONG_AGO, LATER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
SMALL = Rules(searches=1, trials=1, reruns=1, plugins=frozenset({"toy_plugin.py"}))
CHANGES: dict[str, Any] = {
    "name": "mine",
    "training": {"iterations_per_epoch": 1, "max_epochs": 1, "evaluate_every": 1, "patience": None},
    "methods": ["contrastive", "triplet"],
    "search": {"trials": 1, "sampler": "random"},
    "confirm": {"reruns": 1, "gallery": 0},
}
PLACE = Path("results") / "contributed"


@pytest.fixture(scope="module")
def contributed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Preregistration]:
    """A checkout with one archive, and its plan."""
    folder, values = tmp_path_factory.mktemp("proposed"), tiny_values() | CHANGES
    plan = lf.preregister(values, folder / "plan.json")
    lf.run(values, folder / "run", plan=folder / "plan.json")
    archive(folder / "run", folder / "checkout" / PLACE / "mine")
    return folder / "checkout", plan


@pytest.fixture
def proposed(contributed: tuple[Path, Preregistration], tmp_path: Path) -> Path:
    return Path(shutil.copytree(contributed[0], tmp_path / "proposed"))


@pytest.fixture
def base(contributed: tuple[Path, Preregistration]) -> Base:
    """A branch with the plan; the commit of this test is a release."""
    commit = environment().commit
    releases = frozenset() if commit is None else frozenset({commit})
    return Base({"mine": (contributed[1], LONG_AGO)}, releases, frozenset({lf.__version__}))


def problem(folder: Path, base: Base, rules: Rules = SMALL, changed: list[str] | None = None) -> str:
    """Return the line of the only problem."""
    (line,), accepted = check(folder, base, rules, changed)
    assert accepted == [] and "\n" not in line
    return line


def test_an_archive_by_the_rules_is_accepted_and_shown(proposed: Path, base: Base, tmp_path: Path) -> None:
    assert check(proposed, base, SMALL) == ([], ["results/contributed/mine: can be accepted"])
    from levelfield.reports.web import write_site

    page = write_site(proposed / "results", tmp_path / "site").read_text()
    assert ", contributed</small>" in page and base.plans["mine"][0].digest in page


def test_every_broken_rule_is_one_line(proposed: Path, base: Base) -> None:
    plan = base.plans["mine"][0]
    bases = {
        "no plan results/contributed/plans/mine.json is published": replace(base, plans={}),
        "before the plan was published": replace(base, plans={"mine": (plan, LATER)}),
        "which is no release; install a release": replace(base, commits=frozenset({"0" * 12})),
        "the published plan is": replace(
            base, plans={"mine": (plan.model_copy(update={"seed": 9}).sign(), LONG_AGO)}
        ),
    }
    if environment().commit is None:
        del bases["which is no release; install a release"]
    for words, other in bases.items():
        assert words in problem(proposed, other)
    lines, _ = check(proposed, base, replace(Rules(), plugins=SMALL.plugins))
    assert [line.partition("; ")[2] for line in lines] == [
        "plan 3 or more",
        "plan 16 or more",
        "plan 2 or more",
    ]


@pytest.mark.parametrize("damage", ["content", "table", "extra", "link", "large", "gone", "manifest"])
def test_a_damaged_archive_is_one_line(damage: str, proposed: Path, base: Base) -> None:
    root, rules = proposed / PLACE / "mine", SMALL
    changes: dict[str, tuple[Callable[[], object], str]] = {
        "content": (lambda: _cut_last_line(root), "get a new copy of the archive"),
        "table": (lambda: _raise_scores(root), "report/results.md differs from the records"),
        "extra": (lambda: (root / "run.sh").write_text("echo"), "run.sh is not part of an archive"),
        "link": (lambda: (root / "etc").symlink_to("/etc"), "it contains a link"),
        "large": (lambda: (root / "weights").write_bytes(b"0" * 20_000_000), "15 MB at most"),
        "gone": ((root / "plan.json").unlink, "plan"),
        "manifest": ((root / "archive.json").unlink, "archive.json is missing"),
    }
    change, words = changes[damage]
    change()
    assert words in problem(proposed, base, rules)


def _cut_last_line(root: Path) -> None:
    (file,) = root.glob("trials.jsonl*")
    file.write_bytes(file.read_bytes()[:-40])


def _raise_scores(root: Path) -> None:
    file = root / "report" / "results.md"
    file.write_text(file.read_text().replace(".", "9.", 3))


def test_only_contributions_may_change(tmp_path: Path, base: Base) -> None:
    assert "make a pull request of its own" in problem(tmp_path, base, changed=["src/levelfield/stats.py"])
    assert "deleted" in problem(tmp_path, base, changed=["results/contributed/mine/archive.json"])
    both = ["results/contributed/plans/new.json", "results/contributed/mine/archive.json"]
    assert any("a plan is published first" in line for line in check(tmp_path, base, SMALL, both)[0])
    (tmp_path / PLACE / "Not a name").mkdir(parents=True)
    assert "small letters" in problem(tmp_path, base, changed=["results/contributed/Not a name/archive.json"])
    assert check(tmp_path / "nothing", base, SMALL) == ([], [])


def test_a_plan_is_checked_before_it_is_published(
    tmp_path: Path, base: Base, contributed: tuple[Path, Preregistration]
) -> None:
    plan, file = contributed[1], tmp_path / PLACE / "plans" / "new.json"
    file.parent.mkdir(parents=True)

    def proposal(**changes: object) -> str:
        write_preregistration(file, plan.model_copy(update=changes).sign())
        return problem(tmp_path, base)

    assert "is not a release" in proposal(levelfield="9.9.9")
    assert "not one that others can get" in proposal(dataset="folder")
    assert "CONTRIBUTING.md" in proposal(plugins={"my_loss": "0123"})
    assert "compare 2 or more" in proposal(methods=("contrastive",))
    write_preregistration(file, plan)
    assert check(tmp_path, base, SMALL) == ([], ["results/contributed/plans/new.json: can be accepted"])
    changed = replace(base, plans={"new": (plan.model_copy(update={"seed": 5}).sign(), LONG_AGO)})
    assert "cannot be changed" in problem(tmp_path, changed)
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))
    assert "was changed after it was written" in problem(tmp_path, base)


def test_the_workflow_checks_a_pull_request(
    contributed: tuple[Path, Preregistration], tmp_path: Path
) -> None:
    """Runs the two steps of the workflow on a repository of two commits: a plan, and an archive."""
    base, proposed = tmp_path / "base", tmp_path / "proposed"
    base.mkdir()

    def git(folder: Path, *arguments: str) -> str:
        named = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *named, *arguments], cwd=folder, capture_output=True, check=True)
        return done.stdout.decode().strip()

    git(base, "init", "-q")
    shutil.copytree(ROOT / "tools", base / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    file = base / PLACE / "plans" / "mine.json"
    file.parent.mkdir(parents=True)
    write_preregistration(file, contributed[1])
    git(base, "add", "-A")
    git(base, "commit", "-qm", "plan")
    git(base, "tag", f"v{lf.__version__}")
    git(tmp_path, "clone", "-q", "base", "proposed")
    shutil.copytree(contributed[0] / PLACE / "mine", proposed / PLACE / "mine")
    git(proposed, "add", "-A")
    git(proposed, "commit", "-qm", "archive")

    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "contributions.yml").read_text())
    steps = {step.get("name"): step for step in workflow["jobs"]["check"]["steps"]}
    variables = {"BASE": git(base, "rev-parse", "HEAD"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    lines = [steps["List what changed"]["run"], "cd base", steps["Check plans and archives"]["run"]]
    script = "\n".join(lines).replace("python -m", f"{sys.executable} -m")
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    said = (tmp_path / "summary.md").read_text().splitlines()
    assert done.returncode == 1, done.stderr  # too small a budget, too late a plan, and no release
    assert all(line.startswith("results/contributed/mine: ") for line in said)
    assert any("before the plan was published" in line for line in said)
    assert any("plan 16 or more" in line for line in said)
    assert (tmp_path / "changed.txt").read_text().count("results/contributed/mine/") == len(
        files_of(proposed)
    )


def files_of(proposed: Path) -> list[Path]:
    return [path for path in (proposed / PLACE / "mine").rglob("*") if path.is_file()]


def test_the_command_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "clone the repository" in line
