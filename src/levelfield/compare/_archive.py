"""A small copy of an experiment's records, to publish: everything that a verdict rests on, and nothing else.

Left out are weights, logs, pictures and the runs of trials. The values of single queries become class means:
the class is the unit of every verdict; each, and `verify`, says of the copy what it says of the whole.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from safetensors.numpy import load_file, save

from levelfield import files
from levelfield.compare._results import collect
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
                files.write_bytes(kept, save(class_means(load_file(file))))
            else:
                _copy(file, kept)
    reruns = [r for result in comparison.results for repeat in result.repeats for r in repeat.reruns.values()]
    kept_runs = {run for rerun in reruns for run in rerun.runs}  # those that a test score rests on
    if any(rerun.failed for rerun in reruns):  # a rerun that failed does not say which runs; all that did
        ended = {run.path.name: run.result() for run in Store(root).runs()}
        kept_runs |= {name for name, end in ended.items() if end is not None and end.status != "complete"}
    for run in kept_runs:
        for name in RUN_FILES:
            _copy(Store(root).run(run).path / name, Store(out).run(run).path / name)
    return sum(file.stat().st_size for file in out.rglob("*") if file.is_file())


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        files.make_folder(target.parent)
        shutil.copyfile(source, target)
