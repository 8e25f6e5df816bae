"""Plans and anchors: what is kept outside an experiment directory, so that a rewrite is found."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.config import Experiment
    from levelfield.records import Anchor, Preregistration

NOTES_REF = "levelfield"  # git notes are pushed with: git push origin refs/notes/levelfield


def preregister(
    experiment: Experiment | Mapping[str, Any] | str | Path, file: str | Path | None = None
) -> Preregistration:
    """Return the plan of an experiment: methods, budgets, seeds, data, code version, and a digest.

    Names, options and data are checked; nothing is trained. Publish the plan or its digest before the
    experiment runs, then pass it to :func:`run` and :func:`verify`.

    Args:
        experiment: As in :func:`run`.
        file: New file for the plan. None writes no file.

    Example::

        plan = lf.preregister("experiment.yaml", "plan.json")
        print(plan.digest)
        lf.run("experiment.yaml", plan="plan.json")
    """
    from levelfield.api._run import as_experiment
    from levelfield.core.errors import UsageError
    from levelfield.protocol import preregister as make_plan
    from levelfield.records import write_preregistration

    if file is not None and Path(file).exists():
        raise UsageError(f"{file} exists; a plan is not overwritten: choose another file, or delete it")
    plan = make_plan(as_experiment(experiment))
    if file is not None:
        write_preregistration(Path(file), plan)
    return plan


def anchor(
    directory: str | PathLike[str],
    *,
    file: str | Path | None = None,
    git_note: bool = False,
    git_tag: str | None = None,
) -> Anchor:
    """Return the digest of the ledger's last line, which fixes all records before it, and write it elsewhere.

    An anchor protects if others can see it and its date: push the note or tag, or publish the file.
    :func:`verify` finds any later change of what was anchored.

    Args:
        directory: Experiment directory, or an archive of it.
        file: New file for the anchor.
        git_note: Add a git note to the current commit of the repository that contains the directory.
        git_tag: Name of a new annotated tag for the same commit.

    Example::

        print(lf.anchor("runs/exp", file="exp-anchor.json").digest)
        lf.verify("runs/exp", anchor="exp-anchor.json")
    """
    from levelfield.core.errors import UsageError
    from levelfield.records import Store, make_anchor, write_json

    if file is not None and Path(file).exists():
        raise UsageError(f"{file} exists; an anchor is not overwritten: choose another file, or delete it")
    found = make_anchor(Store(Path(directory)))
    if git_note:
        _git(Path(directory), "notes", f"--ref={NOTES_REF}", "append", "-m", found.text)
    if git_tag is not None:
        _git(Path(directory), "tag", "-a", git_tag, "-m", found.text)
    if file is not None:
        write_json(Path(file), found.model_dump(mode="json"), remedy="make room or choose another file")
    return found


def _git(directory: Path, *arguments: str) -> None:
    from levelfield.core.errors import UsageError

    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(
            f"git cannot be started ({error}); install it, or write a file with --file"
        ) from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(
            f"git could not store the anchor of {directory} ({reason}); write a file with --file"
        )
