"""Plain language: docstring openings, American spelling, and words that docs/glossary.md rules out."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROSE = {".py", ".md", ".yaml", ".yml", ".toml", ".html", ".j2", ".js", ".css", ".ipynb"}
# Records and quotations of others keep their words; vendored files are not ours.
NOT_OURS = ("results/", "src/levelfield/analysis/published/", "docs/assets/", "plotly-basic", "CHANGELOG.md")
OPENINGS = "What|Whether|Who|Whose|Whom|How|Where|Which|When|Why|That|Those|Is|Are|Of|As|Says|Tells|Refuses"
BRITISH = re.compile(
    r"\b\w*(?:regularis|optimis|normalis|initialis|serialis|standardis|minimis|maximis|generalis|vectoris"
    r"|colour|behaviour|neighbour|centred|centre\b|centres|favour|artefact|catalogue|licence|grey|judgement"
    r"|labelled(?!by)|cancelled|analyse\b|analysed|analysing)\w*",
    re.IGNORECASE,
)
# The old word in ordinary prose, and what to write instead.
BANNED = {
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bpictures?\b": "image",
    r"\b(?:some|no)body\b": "the person meant, or the passive",
    r"\bspoken\b|\bspeaks?\b": "says, reports",
    r"\bweigh(?:s|ed|ing)?\b": "analyze",
    r"\bin vain\b": "without effect",
    r"\burgency\b": "priority",
    r"\bchief\b": "rank zero",
    r"\bis told\b": "receives, is called with",
    r"\bis no (?:method|loss|miner|sampler|dataset|metric|name|number|file|directory)\b": "is not a ...",
    r"\bhow far (?:it|a|the)\b": "progress",
}
# Names in records and in the JSON of `levelfield index`, which stay as they are.
RECORDED = ("pictures.safetensors", "opened for pictures", '"pictures"')
MAY_SPELL = {
    # Streams of random numbers and stored arrays keep the names that they were recorded under.
    "src/levelfield/protocol/confirm/_neighbors.py",
    "src/levelfield/train/_objective.py",
    "src/levelfield/records/_gallery.py",
}


EXEMPT = {Path(__file__), ROOT / "docs" / "glossary.md"}  # they list the words


def docstrings(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text
        if isinstance(node, ast.ClassDef):  # fields are documented by the string below them
            for field in node.body:
                if isinstance(field, ast.Expr) and isinstance(field.value, ast.Constant):
                    yield field.lineno, str(field.value.value)


def our_files() -> list[Path]:
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    ours = [name for name in listed if name and not any(part in name for part in NOT_OURS)]
    return [ROOT / name for name in ours if Path(name).suffix in PROSE and (ROOT / name).is_file()]


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for file in our_files()
        if file.suffix == ".py"
        for line, text in docstrings(file)
        if re.match(rf"(?:{OPENINGS})\b", text)
    ]
    assert not found, f"{len(found)} docstrings open with a question word:\n" + "\n".join(found[:40])


def test_spelling_is_american() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]}"
        for file in our_files()
        if str(file.relative_to(ROOT)) not in MAY_SPELL and file not in EXEMPT
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        for match in BRITISH.finditer(line)
        if "alias" not in line and "old spelling" not in line
    ]
    assert not found, "\n".join(found[:40])


def test_the_plain_word_is_used() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]!r}; write {plain}"
        for file in our_files()
        if file not in EXEMPT
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        for banned, plain in BANNED.items()
        for match in re.finditer(banned, _without_recorded_names(line), re.IGNORECASE)
    ]
    assert not found, f"{len(found)} places:\n" + "\n".join(found[:60])


def _without_recorded_names(line: str) -> str:
    for name in RECORDED:
        line = line.replace(name, "")
    return line
