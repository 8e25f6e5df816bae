"""A small copy of an experiment's records, to publish: everything that a verdict rests on, and nothing else.

Left out are weights, logs, pictures and most runs. The values of single queries become class means: the class
is the unit of every verdict, so each of them, and `verify`, says of the copy what it says of the whole.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from levelfield import files
from levelfield.compare._confirmation import CLASSES, QUERIES_PER_CLASS, SPECTRUM
from levelfield.compare._results import collect
from levelfield.errors import UsageError
from levelfield.records import SETTINGS, Store

WHOLE_FILES = ("schema.json", "experiment.json", "revisions.jsonl", "ledger.jsonl", "ledger.head.json")
WHOLE_FOLDERS = ("searches", "selections")
RUN_FILES = ("spec.json", "result.json", "provenance.json")
TABLES = ("results.csv", "results.md", "pairs.csv")


def archive(root: str | Path, out: str | Path) -> int:
    """Write the copy into the new folder ``out``; returns its size in bytes.

    Args:
        root: The folder that ``levelfield run`` wrote.
        out: Where the copy goes; made anew where it holds an earlier one.
    """
    root, out = Path(root), Path(out)
    comparison = collect(root)
    if out.exists() and any(out.iterdir()) and not (out / "experiment.json").exists():
        raise UsageError(f"{out} holds other files; name an empty folder, or one to replace")
    if out.resolve() == root.resolve():
        raise UsageError(f"{out} is the experiment itself; name another folder for the copy")
    shutil.rmtree(out, ignore_errors=True)
    files.make_folder(out)
    with files.disk_errors(out):
        for name in (*WHOLE_FILES, *(f"report/{table}" for table in TABLES)):
            _copy(root / name, out / name)
        for folder in WHOLE_FOLDERS:
            if (root / folder).exists():
                shutil.copytree(root / folder, out / folder, ignore=shutil.ignore_patterns(".*"))
        for file in sorted((root / "confirmations").glob("*/rerun-*")):
            kept = out / file.relative_to(root)
            if file.suffix == ".safetensors":
                files.write_bytes(kept, class_means(file))
            else:
                _copy(file, kept)
    reruns = [r for result in comparison.results for repeat in result.repeats for r in repeat.scored]
    for run in {rerun.runs[0] for rerun in reruns if rerun.runs}:  # for what they ran on, one run is enough
        for name in RUN_FILES:
            _copy(Store(root).run(run).path / name, Store(out).run(run).path / name)
    return sum(file.stat().st_size for file in out.rglob("*") if file.is_file())


def class_means(file: Path) -> bytes:
    """The arrays of a rerun with one value per class; queries that were not scored are left out."""
    arrays = load_file(file)
    kept = {SPECTRUM: arrays[SPECTRUM]} if SPECTRUM in arrays else {}
    per_query = {key: value for key, value in arrays.items() if key.partition(".")[0] in SETTINGS}
    if CLASSES not in arrays or not per_query or QUERIES_PER_CLASS in arrays:
        return save(arrays)
    scored = np.isfinite(np.stack(list(per_query.values()))).all(axis=0)
    classes, member = np.unique(arrays[CLASSES][scored], return_inverse=True)
    counts = np.bincount(member, minlength=len(classes))
    kept |= {CLASSES: classes, QUERIES_PER_CLASS: counts}
    for key, values in per_query.items():
        sums = np.bincount(member, weights=values[scored], minlength=len(classes))
        kept[key] = sums / counts
    return save(kept)


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        files.make_folder(target.parent)
        shutil.copyfile(source, target)
