"""Consistent rewrites of an experiment directory, as a determined cheat would program them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from levelfield.analysis._verify_identity import expected_spec
from levelfield.records import (
    PLAN_SEAL,
    LedgerHead,
    LedgerLine,
    RunSpec,
    Search,
    Selection,
    Store,
    compute_record_seal,
    seals_records,
    write_json,
)
from tests.helpers.tampering import edit

Lines = list[dict[str, Any]]


def rechain(directory: Path, change: Callable[[Lines], Lines | None] = lambda lines: None) -> None:
    """Change the lines of the ledger, chain them again and count them again."""
    store = Store(directory)
    lines = [json.loads(text) for text in store.ledger_file.read_text().splitlines()]
    changed = change(lines)
    previous, written = "", []
    for values in lines if changed is None else changed:
        line = LedgerLine.model_validate(values | {"previous": previous})
        previous = line.line_id
        written.append(json.dumps(line.model_dump(mode="json"), sort_keys=True))
    store.ledger_file.write_text("".join(f"{line}\n" for line in written))
    write_json(store.ledger_head_file, LedgerHead(lines=len(written), last=previous).model_dump())


def reseal(directory: Path) -> None:
    """Compute every seal of the ledger again, leave out those of missing records, and chain the lines."""
    store = Store(directory)

    def sealed(lines: Lines) -> None:
        for line in lines:
            found = {n: v if n == PLAN_SEAL else _seal(store, n) for n, v in line.get("sealed", {}).items()}
            line["sealed"] = {name: value for name, value in found.items() if value is not None}

    rechain(directory, sealed)


def _seal(store: Store, name: str) -> str | None:
    if seals_records(name):
        return compute_record_seal(store, name)
    return store.seal(name)


def restate(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change experiment.json and the last revision alike."""
    edit(directory / "experiment.json", change)
    index = json.loads((directory / "experiment.json").read_text())
    lines = (directory / "revisions.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    stated = {name: index[name] for name in last["stated"]}
    lines[-1] = json.dumps(last | {"experiment": index["experiment"], "stated": stated})
    (directory / "revisions.jsonl").write_text("\n".join(lines) + "\n")


def replace_selection(directory: Path, method: str, new: Selection) -> None:
    """Put ``new`` in the place of a method's first selection: index, file, scores, ledger and seals."""
    store = Store(directory)
    old_name = store.experiment_record().selections[method][0]
    old = old_name.rpartition("-")[2]
    new_name = store.freeze(new).stem

    def renamed(index: dict[str, Any]) -> None:
        index["selections"][new.method] = [new_name, *index["selections"][method][1:]]

    edit(directory / "experiment.json", renamed)
    store.selection_file(old_name).unlink()
    home = directory / "confirmations"
    (home / old).rename(home / new.selection_id)

    def moved(lines: Lines) -> None:
        for line in lines:
            if line["selection"] == old:
                line |= {"selection": new.selection_id, "method": new.method}
            for name in list(line.get("sealed", {})):
                if name.startswith(f"{old}/"):
                    line["sealed"][name.replace(old, new.selection_id)] = line["sealed"].pop(name)
                elif name == f"selections/{old_name}":
                    del line["sealed"][name]
                    line["sealed"][f"selections/{new_name}"] = new.selection_id

    rechain(directory, moved)


def rewrite_search(directory: Path, method: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the record of a method's search, and every run, trial, selection, score and seal with it."""
    store = Store(directory)
    index = store.experiment_record()
    old = index.searches[method][0]
    values = json.loads((directory / "searches" / old / "search.json").read_text())
    change(values)
    search = Search.model_validate(values)
    new = search.search_id
    store.write_search(search)
    for trial in store.trials(old):
        runs = tuple(
            _copy_run(store, run, expected_spec(search, "search", trial.number, fold, trial.hyperparameters))
            for fold, run in enumerate(trial.runs)
        )
        store.write_trial(new, trial.model_copy(update={"runs": runs}))
    edit(directory / "experiment.json", lambda found: found["searches"].update({method: [new]}))
    selection = store.selection(index.selections[method][0])
    changed = selection.model_copy(update={"search": new})
    replace_selection(directory, method, changed)
    for number, rerun in store.reruns(changed.selection_id, 100).items():
        runs = tuple(
            _copy_run(store, run, expected_spec(search, "confirm", number, fold, selection.hyperparameters))
            for fold, run in enumerate(rerun.runs)
        )
        edit(store.rerun_file(changed.selection_id, number), partial(_set_runs, runs=runs))
    shutil.rmtree(directory / "searches" / old)

    def renamed(lines: Lines) -> None:
        for line in lines:
            for name in list(line.get("sealed", {})):
                if name.startswith(f"searches/{old}/"):
                    line["sealed"][name.replace(old, new)] = line["sealed"].pop(name)

    rechain(directory, renamed)
    reseal(directory)


def _set_runs(found: dict[str, Any], runs: tuple[str, ...]) -> None:
    found["runs"] = runs


def _copy_run(store: Store, old: str, spec: RunSpec) -> str:
    """Copy a run under the name that ``spec`` gives, and return that name."""
    if not store.run(spec.run_id).path.exists():
        shutil.copytree(store.run(old).path, store.run(spec.run_id).path)
        write_json(store.run(spec.run_id).path / "spec.json", spec.model_dump(mode="json"))
    return spec.run_id


def erase_method(directory: Path, method: str) -> None:
    """Delete every trace of a method: records, ledger lines, seals and statements."""
    store = Store(directory)
    index = store.experiment_record()
    searches, names = index.searches[method], index.selections[method]
    gone = {name.rpartition("-")[2] for name in names}
    for search in searches:
        shutil.rmtree(directory / "searches" / search)
    for name in names:
        store.selection_file(name).unlink()
        shutil.rmtree(directory / "confirmations" / name.rpartition("-")[2])

    def left_out(found: dict[str, Any]) -> None:
        kept = [spec for spec in found["experiment"]["methods"] if spec["name"] != method]
        found["experiment"]["methods"] = kept
        del found["selections"][method], found["searches"][method]

    restate(directory, left_out)

    def without(lines: Lines) -> Lines:
        for line in lines:
            for name in list(line.get("sealed", {})):
                if name.split("/")[0] in gone or any(part in (*searches, *names) for part in name.split("/")):
                    del line["sealed"][name]
        return [line for line in lines if line["method"] != method]

    rechain(directory, without)
    reseal(directory)
