"""The pages of the documentation that are made from the code: losses, reference, notebooks."""

from __future__ import annotations

import base64
import hashlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import yaml

import levelfield as lf
import loss_pictures
from levelfield.files import cache_folder, write_bytes
from levelfield.losses import LossCard
from levelfield.registry import Entry
from levelfield.space import describe

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FORMULAS: dict[str, str] = yaml.safe_load((HERE / "formulas.yaml").read_text(encoding="utf-8"))
# The rooms whose names users call, in the order of a comparison.
ROOMS = {
    "levelfield.app": "Run a comparison",
    "levelfield.config": "Experiment files",
    "levelfield.space": "Search ranges",
    "levelfield.data": "Data",
    "levelfield.data.splits": "Splits",
    "levelfield.data.transforms": "Transforms",
    "levelfield.models": "Trunks and heads",
    "levelfield.batches": "Batch samplers",
    "levelfield.miners": "Miners",
    "levelfield.losses": "Losses",
    "levelfield.methods": "Methods",
    "levelfield.metrics": "Metrics",
    "levelfield.frames": "Results as data frames",
    "levelfield.compare": "Comparisons and verdicts",
    "levelfield.stats": "Statistics",
    "levelfield.records": "Records",
    "levelfield.track": "Trackers",
    "levelfield.engine": "Engines",
    "levelfield.embedders": "Model folders",
    "levelfield.index": "Index and search",
    "levelfield.rerank": "Re-ranking",
    "levelfield.published": "Published numbers",
    "levelfield.testing": "Checks for plug-ins",
}


def loss_names() -> list[str]:
    """Every registered loss."""
    return lf.losses.registry.names()


def loss_pages() -> Iterator[tuple[str, bytes]]:
    """A page and a picture per loss, and the page that shows them all: path below docs, content."""
    entries = [lf.losses.registry[name] for name in lf.losses.registry.names()]
    for entry in entries:
        yield f"losses/{entry.name}.png", _picture(entry)
        yield f"losses/{entry.name}.md", _loss_page(entry).encode()
    yield "losses/index.md", _gallery(entries).encode()


def reference_pages() -> Iterator[tuple[str, bytes]]:
    """A page per room, filled from its docstrings."""
    lines = ["# Reference", "", "Every public name, from its docstring.", ""]
    for module, title in ROOMS.items():
        lines.append(f"- [{title}]({module}.md): `{module}`")
        text = f"# {title}\n\n::: {module}\n    options:\n      show_root_heading: false\n"
        yield f"reference/{module}.md", text.encode()
    yield "reference/index.md", ("\n".join(lines) + "\n").encode()


def notebook_pages() -> Iterator[tuple[str, bytes]]:
    """The notebooks with their outputs, as pages."""
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        book = nbformat.read(file, as_version=4)
        parts = []
        for number, cell in enumerate(book.cells):
            if cell.cell_type == "markdown":
                parts.append(cell.source)
                continue
            parts.append(f"```python\n{cell.source}\n```")
            for place, output in enumerate(cell.get("outputs", [])):
                data = output.get("data", {})
                if "image/png" in data:
                    name = f"{file.stem}-{number}-{place}.png"
                    yield f"notebooks/{name}", base64.b64decode(data["image/png"])
                    parts.append(f"![output of the cell above]({name})")
                elif text := output.get("text") or data.get("text/plain"):
                    parts.append(f"```text\n{text.rstrip()}\n```")
        parts.append(f"*This page is the notebook `notebooks/{file.name}`; a test runs it.*")
        yield f"notebooks/{file.stem}.md", ("\n\n".join(parts) + "\n").encode()


def copied_pages() -> Iterator[tuple[str, bytes]]:
    """Files of the repository's root that are pages too; their links are made to fit."""
    for name, page in (("CONTRIBUTING.md", "contributing.md"), ("CHANGELOG.md", "changelog.md")):
        text = (ROOT / name).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")
        yield page, re.sub(r"\[(`?[^\]`]+`?)\]\(src/[^)]+\)", r"\1", text).encode()


def _picture(entry: Entry[LossCard]) -> bytes:
    """The gradient field, kept between builds: drawing them all takes minutes."""
    module = inspect.getmodule(entry.target)
    source = (inspect.getsource(module) if module else "") + inspect.getsource(loss_pictures)
    file = cache_folder() / "docs" / f"{entry.name}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.png"
    if not file.exists():
        write_bytes(file, loss_pictures.field_png(entry))
    return file.read_bytes()


def _loss_page(entry: Entry[LossCard]) -> str:
    card = entry.card
    summary, *rest = (inspect.getdoc(entry.target) or "").split("\n\n")
    body = "\n\n".join(part for part in rest if not part.startswith("Example:"))
    lines = [f"# {entry.name}", "", summary, ""]
    if entry.name in FORMULAS:
        lines += [
            f'<div class="formula">{_one_line(loss_pictures.formula_svg(FORMULAS[entry.name]))}</div>',
            "",
        ]
    lines += [without_roles(body), "", f"*{card.paper}, {card.year}.*" if card.paper else "", ""]
    lines += ["## Options", "", "| option | default | searched in |", "|---|---|---|"]
    for name, parameter in entry.parameters.items():
        if name in ("num_classes", "embedding_size", "seed"):
            continue
        default = "" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        searched = describe(card.space[name]).replace("|", "\\|") if name in card.space else ""
        lines.append(f"| `{name}` | {default} | {f'`{searched}`' if searched else ''} |")
    takes = f"a miner's {card.tuples}" if card.tuples else "no miner"
    lines += ["", f"Kind: {card.kind}; takes {takes}; works on {card.embedding} embeddings."]
    if card.own_lr:
        lines.append(f"It owns parameters, which learn at a rate of their own (`loss_lr`, {card.loss_lr:g}).")
    lines += [
        "",
        "## Where it pushes a sample",
        "",
        f"![Gradient field of {entry.name}]({entry.name}.png)",
        "",
    ]
    what = (
        "Markers are the two class weights."
        if card.kind == "classification"
        else "Markers are the other samples of the batch."
    )
    lines += [
        "Arrows: where gradient descent moves a sample of the blue class from there, with the options' "
        f"defaults. {what} Grey: the loss. Longer arrows are stronger, on a scale of square roots.",
        "",
        "## Use it",
        "",
        f'`lf.losses.create("{entry.name}")` in Python; in an experiment file '
        f"`methods: [{{name: mine, loss: {entry.name}}}]`.",
    ]
    return "\n".join(lines) + "\n"


def _gallery(entries: list[Entry[LossCard]]) -> str:
    lines = ["# Gallery of losses", "", "Each with formula, ranges, paper and gradient field.", ""]
    for kind in ("embedding", "classification"):
        lines += [f"## {kind.capitalize()} losses", "", "| | loss | year | |", "|---|---|---|---|"]
        for entry in entries:
            if entry.card.kind == kind:
                name = entry.name
                lines.append(
                    f"| [![{name}]({name}.png){{ width=120 }}]({name}.md) | [`{name}`]({name}.md) "
                    f"| {entry.card.year or ''} | {entry.card.summary} |"
                )
        lines.append("")
    return "\n".join(lines) + "\n"


def _one_line(svg: str) -> str:
    return " ".join(svg.split())


def without_roles(text: str) -> str:
    """Docstrings name things as ``:func:`~a.b.c```; pages show the last part as code."""
    text = re.sub(r":(?:class|func|meth|mod|attr):`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")
