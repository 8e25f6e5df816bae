"""What MkDocs calls while it builds the site: pages from code come in, links that leave docs/ are turned."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import yaml
from mkdocs.structure.files import File, Files

import generated

MOVED = {
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../README.md": "start.md",
}

# Files of the repository that are no pages: named, but not linked.
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:examples|src|benchmarks|tests|results|notebooks)/[^)]*\)")


def on_config(config: Any) -> Any:
    """Fill the parts of the navigation that follow from the code and from what lies in docs/."""
    named = yaml.safe_dump(config.nav)
    for section in config.nav:
        (title, pages), *_ = section.items()
        if title == "In depth":
            found = sorted(file.name for file in Path(config.docs_dir).glob("*.md"))
            pages += [name for name in found if name not in named]
        elif pages == "losses/":
            section[title] = ["losses/index.md", *(f"losses/{name}.md" for name in generated.loss_names())]
        elif pages == "reference/":
            section[title] = ["reference/index.md", *(f"reference/{room}.md" for room in generated.ROOMS)]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from code."""
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
    """Point links at files outside docs/ to the pages that stand for them."""
    up = "../" * page.file.src_uri.count("/")
    for outside, inside in MOVED.items():
        markdown = markdown.replace(f"]({up}{outside}", f"]({up}{inside}")
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show Sphinx's roles in docstrings as code."""
    return re.sub(
        r":(?:class|func|meth|mod|attr):<code>~?(?:[\w.]*\.)?(\w+)</code>", r"<code>\1</code>", html
    )
