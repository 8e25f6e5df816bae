"""Check of a ``tokenizer.json``, which may come from a stranger, before the library tokenizers opens it.

A tokenizer is a small program: its replacements can grow a text without bound, its patterns can take hours,
and the library then ends the whole process. Those of CLIP and SigLIP models pass this check.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from levelfield.core.errors import UsageError
from levelfield.core.strict_json import parse_json

MAX_BYTES = 100_000_000  # the largest vocabularies take 35 MB
MAX_STEPS = 30  # of normalizers and of splits
MAX_GROWTH = 100  # of the text, by all replacements together
MAX_WORD = 1000  # characters of a word that WordPiece looks up; its time grows with the square
NORMALIZERS = {
    *("Sequence", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "Strip", "StripAccents"),
    *("BertNormalizer", "Replace", "Prepend", "Precompiled"),
}
SPLITS = {
    *("Sequence", "ByteLevel", "Metaspace", "Whitespace", "WhitespaceSplit", "Split", "Punctuation"),
    *("Digits", "BertPreTokenizer", "UnicodeScripts", "CharDelimiterSplit"),
}


def check_tokenizer(content: bytes) -> None:
    """Raise UsageError if the tokenizer is damaged, or could need far more work than its text.

    Example:
        >>> check_tokenizer(b'{"model": {}, "normalizer": {"type": "Program"}}')
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: the tokenizer of the model is not used ...
    """
    if len(content) > MAX_BYTES:
        raise _refused(f"it has more than {MAX_BYTES:,} bytes")
    try:
        values = parse_json(content.decode("utf-8"))
        problem = next(_problems(values), "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _refused(f"it is no tokenizer.json: {str(error)[:100]}") from error
    if problem:
        raise _refused(problem)


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    normalizers = list(_steps(values.get("normalizer"), "normalizers"))
    splits = list(_steps(values.get("pre_tokenizer"), "pretokenizers"))
    if max(len(normalizers), len(splits)) > MAX_STEPS:
        yield f"it has more than {MAX_STEPS} steps"
    growth = 1
    for step in normalizers:
        if step["type"] not in NORMALIZERS:
            yield f"it has the normalizer {step['type']}"
        growth *= _growth(step)
    if growth > MAX_GROWTH:
        yield f"its replacements make a text more than {MAX_GROWTH} times as long"
    for step in (*normalizers, *splits):
        pattern = step.get("pattern") or {}
        if not _is_fast(str(pattern.get("Regex", ""))):
            yield "it has a pattern that may take very long"
    for step in splits:
        if step["type"] not in SPLITS:
            yield f"it has the split {step['type']}"
    if not 0 <= values["model"].get("max_input_chars_per_word", 0) <= MAX_WORD:
        yield f"it looks up words of more than {MAX_WORD} letters"


def _steps(step: Any, inner: str) -> Iterator[dict[str, Any]]:
    """Yield a step and, for a sequence, the steps in it."""
    if step is None:
        return
    yield step
    for each in step.get(inner) or ():
        yield from _steps(each, inner)


def _growth(step: Mapping[str, Any]) -> int:
    """Return the factor by which a normalizer can lengthen a text."""
    longest = len(step.get("content") or "")
    if step["type"] == "Prepend":
        longest = 1 + len(step.get("prepend") or "")
    if step["type"] == "Precompiled":
        try:
            table = base64.b64decode(step["precompiled_charsmap"], validate=True)
        except binascii.Error as error:
            raise ValueError("its table of characters is not base64") from error
        start = 4 + int.from_bytes(table[:4], "little")
        longest = max(
            (len(each.decode("utf-8", "replace")) for each in table[start:].split(b"\0")), default=0
        )
    return max(1, longest)


def _is_fast(pattern: str) -> bool:
    """Return True for alternatives with at most one repetition each, and without groups.

    Example:
        >>> _is_fast(r"'s|'t|[\\p{L}]+|[^\\s\\p{N}]+"), _is_fast("(a+)+"), _is_fast("a?a?a?aaa")
        (True, False, False)
    """
    plain = re.sub(r"\\[pP]\{\^?\w{1,30}\}|\\.", "x", pattern)
    plain = re.sub(r"\[\^?[^\[\]]*\]", "x", plain)
    return (
        len(pattern) <= 2000
        and not re.search(r"[()\[\]]", plain)
        and all(len(re.findall(r"[*+?]|\{", each)) <= 1 for each in plain.split("|"))
    )


def _refused(problem: str) -> UsageError:
    return UsageError(
        f"the tokenizer of the model is not used ({problem}); give the tokenizer.json of a CLIP or SigLIP "
        "model"
    )
