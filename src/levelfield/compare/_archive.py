"""A small copy of an experiment's records, to publish: everything that a verdict rests on, and nothing else.

Left out are weights, logs, pictures and the runs of trials. The values of single queries become class means:
the class is the unit of every verdict; each, and `verify`, says of the copy what it says of the whole.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from safetensors.numpy import load_file, save

from levelfield import files
from levelfield.compare._results import Comparison, collect
from levelfield.errors import UsageError
from levelfield.records import Store, class_means

WHOLE_FILES = ("schema.json", "experiment.json", "revisions.jsonl", "ledger.jsonl", "ledger.head.json")
WHOLE_FOLDERS = ("searches", "selections")
RUN_FILES = ("spec.json", "result.json", "provenance.json")
TABLES = ("results.csv", "results.md", "pairs.csv")


def archive(root: str | Path, out: str | Path) -> int:
    """Write the copy into the new folder ``out``; returns its size in bytes.

    Args:
        root: The folder that ``levelfield run`` wrote.
        out: Where the copy goes; nothing may lie there. It appears when it is whole.
    """
    root, out = Path(root), Path(out)
    comparison = collect(root)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is not empty; name a new folder, or delete what lies there")
    unfinished = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a copy that was killed
    files.make_folder(unfinished)
    with files.disk_errors(out):
        _write(root, comparison, unfinished)
        unfinished.replace(out)
    return sum(file.stat().st_size for file in out.rglob("*") if file.is_file())


def _write(root: Path, comparison: Comparison, out: Path) -> None:
    for name in (*WHOLE_FILES, *(f"report/{table}" for table in TABLES)):
        _copy(root / name, out / name)
    for folder in WHOLE_FOLDERS:
        if (root / folder).exists():
            shutil.copytree(root / folder, out / folder, ignore=shutil.ignore_patterns(".*"))
    for file in sorted((root / "confirmations").glob("*/rerun-*")):
        kept = out / file.relative_to(root)
        if file.suffix == ".safetensors":
            files.write_bytes(kept, save(class_means(load_file(file))))
        else:
            _copy(file, kept)
    for run in _kept_runs(root, comparison):
        for name in RUN_FILES:
            _copy(Store(root).run(run).path / name, Store(out).run(run).path / name)


def _kept_runs(root: Path, comparison: Comparison) -> set[str]:
    """Those that a test score rests on, and those that failed where a rerun did: it does not say which."""
    reruns = [r for result in comparison.results for repeat in result.repeats for r in repeat.reruns.values()]
    kept = {run for rerun in reruns for run in rerun.runs}
    if any(rerun.failed for rerun in reruns):
        ended = {run.path.name: run.result() for run in Store(root).runs()}
        kept |= {name for name, end in ended.items() if end is not None and end.status != "complete"}
    return kept


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        files.make_folder(target.parent)
        shutil.copyfile(source, target)
