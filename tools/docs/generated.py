"""Generated pages of the documentation: losses, reference, notebooks."""

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
from levelfield.core.files import cache_directory, write_bytes
from levelfield.core.registry import RegistryEntry
from levelfield.core.space import describe_range
from levelfield.losses import LossCard
from tools.docs import loss_images

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FORMULAS: dict[str, str] = yaml.safe_load((HERE / "formulas.yaml").read_text(encoding="utf-8"))
# Modules with a reference page, in the order of a comparison, and the titles of the pages.
MODULES = {
    "levelfield.api": "Run and compare",
    "levelfield.config": "Experiment files",
    "levelfield.core.space": "Search ranges",
    "levelfield.data": "Data",
    "levelfield.data.splits": "Splits",
    "levelfield.data.transforms": "Transforms",
    "levelfield.models": "Trunks and heads",
    "levelfield.samplers": "Batch samplers",
    "levelfield.miners": "Miners",
    "levelfield.losses": "Losses",
    "levelfield.losses.regularizers": "Regularizers",
    "levelfield.core.geometry": "Geometry of a batch",
    "levelfield.methods": "Methods",
    "levelfield.metrics": "Metrics",
    "levelfield.analysis.frames": "Results as data frames",
    "levelfield.analysis": "Comparisons and verdicts",
    "levelfield.stats": "Statistics",
    "levelfield.reports": "Reports",
    "levelfield.records": "Records",
    "levelfield.track": "Trackers",
    "levelfield.engine": "Engines",
    "levelfield.retrieval.embedders": "Model directories",
    "levelfield.retrieval.index": "Index and search",
    "levelfield.retrieval.rerank": "Re-ranking",
    "levelfield.analysis.published": "Published numbers",
    "levelfield.testing": "Checks for plug-ins",
    "levelfield.core.errors": "Errors",
    "levelfield.core.deprecation": "Deprecation",
}


def loss_names() -> list[str]:
    """Return the names of the registered losses."""
    return lf.losses.registry.names()


def loss_pages() -> Iterator[tuple[str, bytes]]:
    """Yield a page and an image per loss, and the gallery page: path below docs/, content."""
    entries = [lf.losses.registry[name] for name in lf.losses.registry.names()]
    for entry in entries:
        yield f"losses/{entry.name}.png", _field_image(entry)
        yield f"losses/{entry.name}.md", _loss_page(entry).encode()
    yield "losses/index.md", _gallery(entries).encode()


def reference_pages() -> Iterator[tuple[str, bytes]]:
    """Yield one page per module, filled from its docstrings, and the index page."""
    lines = ["# Reference", "", "Generated from docstrings. [Public API](../api.md) says what is stable.", ""]
    for module, title in MODULES.items():
        lines.append(f"- [{title}]({module}.md): `{module}`")
        text = f"# {title}\n\n::: {module}\n    options:\n      show_root_heading: false\n"
        yield f"reference/{module}.md", text.encode()
    yield "reference/index.md", ("\n".join(lines) + "\n").encode()


def notebook_pages() -> Iterator[tuple[str, bytes]]:
    """Yield the notebooks as pages, with their outputs."""
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        book = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]  # no types
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
    """Yield the files of the repository's root that are pages too, with rewritten links."""
    for name, page in (("CONTRIBUTING.md", "contributing.md"), ("CHANGELOG.md", "changelog.md")):
        text = (ROOT / name).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")
        yield page, re.sub(r"\[(`?[^\]`]+`?)\]\(src/[^)]+\)", r"\1", text).encode()


def _field_image(entry: RegistryEntry[LossCard]) -> bytes:
    """Return the gradient field; cached between builds, because drawing all of them takes minutes."""
    module = inspect.getmodule(entry.target)
    source = (inspect.getsource(module) if module else "") + inspect.getsource(loss_images)
    file = cache_directory() / "docs" / f"{entry.name}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.png"
    if not file.exists():
        write_bytes(file, loss_images.field_png(entry))
    return file.read_bytes()


def _loss_page(entry: RegistryEntry[LossCard]) -> str:
    card = entry.card
    summary, *rest = (inspect.getdoc(entry.target) or "").split("\n\n")
    body = "\n\n".join(part for part in rest if not part.startswith("Example:"))
    lines = [f"# {entry.name}", "", summary, ""]
    if entry.name in FORMULAS:
        lines += [
            f'<div class="formula">{_one_line(loss_images.formula_svg(FORMULAS[entry.name]))}</div>',
            "",
        ]
    lines += [without_roles(body), "", f"*{card.paper}, {card.year}.*" if card.paper else "", ""]
    lines += ["## Options", "", "| option | default | searched in |", "|---|---|---|"]
    for name, parameter in entry.parameters.items():
        if name in ("num_classes", "embedding_size", "seed"):
            continue
        default = "" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        searched = describe_range(card.space[name]).replace("|", "\\|") if name in card.space else ""
        lines.append(f"| `{name}` | {default} | {f'`{searched}`' if searched else ''} |")
    takes = f"a miner's {card.tuples}" if card.tuples else "no miner"
    lines += ["", f"Kind: {card.kind}; takes {takes}; works on {card.embedding} embeddings."]
    if card.own_lr:
        lines.append(f"It owns parameters, which have their own learning rate (`loss_lr`, {card.loss_lr:g}).")
    lines += [
        "",
        "## Gradient field",
        "",
        f"![Gradient field of {entry.name}]({entry.name}.png)",
        "",
    ]
    markers = (
        "Markers are the two class weights."
        if card.kind == "classification"
        else "Markers are the other samples of the batch."
    )
    lines += [
        "Arrows: direction in which gradient descent moves a sample of the blue class, at default options. "
        f"{markers} Gray: the loss. The length of an arrow is the square root of the gradient's.",
        "",
        "## Use it",
        "",
        f"In Python: {_call(entry)}. In an experiment file: `methods: [{{name: mine, loss: {entry.name}}}]`.",
    ]
    return "\n".join(lines) + "\n"


def _call(entry: RegistryEntry[LossCard]) -> str:
    """Return the Python code that makes the loss."""
    name = getattr(entry.target, "__name__", "")
    return f"`lf.losses.{name}(...)`" if hasattr(lf.losses, name) else f'`lf.losses.create("{entry.name}")`'


def _gallery(entries: list[RegistryEntry[LossCard]]) -> str:
    lines = ["# Gallery of losses", "", "Formula, ranges, paper and gradient field of each loss.", ""]
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
    """Return the text with Sphinx roles such as ``:func:`~a.b.c``` replaced by the last part as code."""
    text = re.sub(r":(?:class|func|meth|mod|attr):`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`")
