"""Check plans and archives that others add to results/contributed/.

    python -m tools.contributions check FOLDER [--base CHECKOUT] [--list FILE]

FOLDER is the checkout of the pull request, CHECKOUT that of the branch it goes to, with its tags and its
history. With ``--list``, only the contributions among the changed paths in FILE are checked, and every path
elsewhere is a problem. Only records are read: no code of FOLDER runs. One line is printed for each problem,
and one for each contribution that can be accepted; the exit code is 1 if there is any problem.

``results/contributed/plans/NAME.json`` is a plan, ``results/contributed/NAME/`` the archive of its run.
docs/leaderboard.md has the rules for contributors.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from levelfield.api import verify
from levelfield.core.errors import LevelfieldError
from levelfield.records import Preregistration, Store, read_archive_manifest, read_preregistration

PLACE = PurePosixPath("results/contributed")
PLANS = PLACE / "plans"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{2,60}")
PRIVATE = ("folder", "csv")  # private datasets
FROM_ELSEWHERE = re.compile(r"hf:|torchvision:|.*\.py$")
TABLES = ("results.csv", "results.md", "results.tex", "pairs.csv", "verdict.json")


@dataclass(frozen=True)
class Rules:
    """Limits of what is accepted.

    Attributes:
        methods: Fewest methods.
        searches: Fewest searches per method.
        trials: Fewest trials per search.
        reruns: Fewest reruns per search.
        megabytes: Largest archive.
        plugins: Plug-ins that may be used.
    """

    methods: int = 2
    searches: int = 3
    trials: int = 16
    reruns: int = 2
    megabytes: float = 15.0
    plugins: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Base:
    """Branch that a contribution goes to.

    Attributes:
        plans: Published plans by name, each with the time at which it was published.
        commits: Commits of releases.
        versions: Versions that were released.
    """

    plans: dict[str, tuple[Preregistration, datetime]]
    commits: frozenset[str]
    versions: frozenset[str]


def read_base(checkout: Path) -> Base:
    """Return the plans and the releases of a checkout; releases are the tags ``vX.Y.Z``."""
    plans = {}
    for file in sorted((checkout / PLANS).glob("*.json")):
        path = str(PLANS / file.name)
        added = _git(checkout, "log", "--format=%cI", "--diff-filter=A", "--", path).splitlines()
        if added:
            plans[file.stem] = (read_preregistration(file), datetime.fromisoformat(added[-1]))
    tags = [tag for tag in _git(checkout, "tag").split() if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    commits = frozenset(_git(checkout, "rev-parse", f"{tag}^{{commit}}").strip()[:12] for tag in tags)
    return Base(plans, commits, frozenset(tag[1:] for tag in tags))


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise LevelfieldError(f"{checkout} is not a usable git checkout ({reason}); clone the repository")
    return done.stdout


def check_plan(file: Path, base: Base, rules: Rules) -> Iterator[str]:
    """Yield what stops a plan from being accepted, one sentence each."""
    try:
        plan = read_preregistration(file)
    except LevelfieldError as error:
        yield str(error)
        return
    if file.stem in base.plans and base.plans[file.stem][0].digest != plan.digest:
        yield "a published plan cannot be changed; choose a new name"
    yield from _plan_problems(plan, base, rules)


def _plan_problems(plan: Preregistration, base: Base, rules: Rules) -> Iterator[str]:
    if plan.levelfield not in base.versions:
        yield f"version {plan.levelfield} is not a release; install one of {_words(base.versions)}"
    if plan.dataset in PRIVATE or FROM_ELSEWHERE.match(plan.dataset):
        yield f'dataset "{plan.dataset}" is not one that others can get; use one of `levelfield ls datasets`'
    if foreign := plan.plugins.keys() - rules.plugins:
        yield (
            f"it needs the plug-in {_words(foreign)}; add the method to levelfield first "
            "(CONTRIBUTING.md), then run the release that has it"
        )
    if len(plan.methods) < rules.methods:
        yield f"it has {len(plan.methods)} method; compare {rules.methods} or more"
    for what in ("searches", "trials", "reruns"):
        if plan.budget.get(what, 0) < getattr(rules, what):
            yield f"it has {plan.budget.get(what, 0)} {what}; plan {getattr(rules, what)} or more"


def check_archive(root: Path, base: Base, rules: Rules) -> Iterator[str]:
    """Yield what stops an archive from being accepted, one sentence each; the cheap checks come first."""
    problems = [*_file_problems(root, rules)]
    if root.name not in base.plans:
        problems.append(
            f"no plan {PLANS / root.name}.json is published; a plan is added by a pull request of its own, "
            "before the experiment runs"
        )
    if problems:
        yield from problems
        return
    plan, published = base.plans[root.name]
    try:
        yield from _record_problems(root, base, plan, published)
        yield from _plan_problems(plan, base, rules)
        yield from verify(root, plan=base_plan(root, plan))
    except LevelfieldError as error:
        yield str(error)


def base_plan(root: Path, plan: Preregistration) -> Path:
    """Return the plan file in an archive if it is the published one; raise LevelfieldError if not."""
    own = read_preregistration(Store(root).plan_file)
    if own.digest != plan.digest:
        raise LevelfieldError(f"it was run by plan {own.digest}, the published plan is {plan.digest}")
    return Store(root).plan_file


def _file_problems(root: Path, rules: Rules) -> Iterator[str]:
    """Yield a sentence for each file that an archive does not have, or is too large."""
    files = [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
    if any(path.is_symlink() for path in (root, *files)):
        yield "it contains a link; commit the files themselves"
        return
    size = sum(path.stat().st_size for path in files) / 1e6
    if size > rules.megabytes:
        yield f"it has {size:.0f} MB, {rules.megabytes:.0f} MB at most; run fewer methods"
        return
    try:
        manifest = read_archive_manifest(root)
    except LevelfieldError as error:
        yield f"{error}; write it with `levelfield archive`"
        return
    known = {"archive.json", *manifest.files, *(f"report/{name}" for name in TABLES)}
    extra = sorted({path.relative_to(root).as_posix() for path in files} - known)
    if extra:
        yield f"{_words(extra[:3])} is not part of an archive; delete it"
    if manifest.missing_runs:
        yield f"{manifest.missing_runs} runs are not on record; archive the directory in which it ran"


def _record_problems(root: Path, base: Base, plan: Preregistration, published: datetime) -> Iterator[str]:
    """Yield a sentence for each departure from the rules on code and time."""
    store = Store(root)
    ledger = store.ledger()
    commits = {line.commit for line in ledger}
    commits |= {found.commit for run in store.runs() if (found := run.provenance()) is not None}
    unknown = sorted(commit or "unknown" for commit in commits if commit not in base.commits)
    wheel = not any(commits) and plan.levelfield in base.versions  # installed from the package index
    if unknown and not wheel:
        yield f"it ran from commit {_words(unknown)}, which is no release; install a release and run it again"
    opened = [line.time for line in ledger if line.selection]
    if opened and datetime.fromisoformat(opened[0]) < published:
        yield f"the test set was opened at {opened[0]}, before the plan was published ({published})"
    if store.experiment_record().leaky:
        yield "it was tuned with test feedback"


def _words(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def contributions(folder: Path, changed: list[str] | None = None) -> tuple[list[Path], list[Path], list[str]]:
    """Return the plans and archives to check, and a sentence for each changed path that is elsewhere."""
    if changed is None:
        found = [path for path in (folder / PLACE).glob("*") if path.is_dir() and path.name != PLANS.name]
        return sorted((folder / PLANS).glob("*.json")), sorted(found), []
    plans: set[PurePosixPath] = set()
    archives: set[PurePosixPath] = set()
    elsewhere = []
    for path in map(PurePosixPath, changed):
        below = path.relative_to(PLACE).parts if path.is_relative_to(PLACE) else ()
        if len(below) == 2 and below[0] == PLANS.name and path.suffix == ".json":
            plans.add(path)
        elif len(below) >= 2 and below[0] != PLANS.name:
            archives.add(PLACE / below[0])
        else:
            elsewhere.append(
                f"{path}: not in {PLACE}/NAME/ nor {PLANS}/NAME.json; make a pull request of its own"
            )
    if plans and archives:
        elsewhere.append("plans and archives in one pull request: a plan is published first")
    return sorted(folder / p for p in plans), sorted(folder / p for p in archives), elsewhere


def check(
    folder: Path, base: Base, rules: Rules, changed: list[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return a line for each problem, and a line for each contribution that can be accepted."""
    plans, archives, problems = contributions(folder, changed)
    accepted = []
    for path in (*plans, *archives):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found = ["it is a link; commit the files themselves"]
        elif not path.exists():
            found = ["it was deleted; contributions stay"]
        elif not NAME.fullmatch(path.stem):
            found = ["a name has 3 to 61 small letters, digits, - and _"]
        else:
            found = [*(check_plan if path in plans else check_archive)(path, base, rules)]
        problems += [f"{name}: {' '.join(problem.split())}" for problem in found]
        accepted += [] if found else [f"{name}: can be accepted"]
    return problems, accepted


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", type=Path, help="checkout of the branch; the folder itself by default")
    parser.add_argument("--list", type=Path, help="file with the changed paths, one per line")
    options = parser.parse_args(arguments)
    changed = None if options.list is None else options.list.read_text(encoding="utf-8").splitlines()
    try:
        base = read_base(options.base or options.folder)
    except LevelfieldError as error:
        print(error)
        return 1
    problems, accepted = check(options.folder, base, Rules(), changed)
    print("\n".join([*problems, *accepted]) or "no contributions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
