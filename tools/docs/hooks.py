"""Hooks of the MkDocs build: add the generated pages, rewrite links that leave docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from mkdocs.structure.files import File, Files

from tools.docs import generated

MOVED = {
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../README.md": "start.md",
}

# Links to files of the repository that are not pages; the site shows their names without a link.
OUTSIDE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./)+(?:examples|src|benchmarks|tests|tools|results|notebooks)/[^)]*\)"
)


def on_config(config: Any) -> Any:
    """Fill the parts of the navigation that depend on the code and on the files in docs/."""
    named = yaml.safe_dump(config.nav)
    for section in config.nav:
        (title, pages), *_ = section.items()
        if title == "In depth":
            found = sorted(file.name for file in Path(config.docs_dir).glob("*.md"))
            pages += [name for name in found if name not in named]
        elif pages == "losses/":
            section[title] = ["losses/index.md", *(f"losses/{name}.md" for name in generated.loss_names())]
        elif "reference/" in pages:
            pages.remove("reference/")
            pages += ["reference/index.md", *(f"reference/{module}.md" for module in generated.MODULES)]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated from code."""
    for pages in (
        generated.loss_pages(),
        generated.reference_pages(),
        generated.notebook_pages(),
        generated.copied_pages(),
    ):
        for path, content in pages:
            files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links to files outside docs/ to the pages that replace them."""
    up = "../" * page.file.src_uri.count("/")
    for outside, inside in MOVED.items():
        markdown = markdown.replace(f"]({up}{outside}", f"]({up}{inside}")
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show Sphinx roles in docstrings as code."""
    return re.sub(
        r":(?:class|func|meth|mod|attr):<code>~?(?:[\w.]*\.)?(\w+)</code>", r"<code>\1</code>", html
    )
