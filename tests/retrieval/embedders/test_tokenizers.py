"""A stranger's tokenizer cannot end the process, take hours or fill the memory."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from levelfield.core.errors import UsageError
from levelfield.retrieval.embedders.text import _encode, open_tokenizer

pytest.importorskip("tokenizers")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def tokenizer(**parts: Any) -> bytes:
    given = {
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"},
    }
    return json.dumps({**given, **parts}).encode()


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}


def replace(content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": "a"}, "content": content}


def table(text: str) -> dict[str, Any]:
    return {
        "type": "Precompiled",
        "precompiled_charsmap": base64.b64encode(b"\0\0\0\0" + text.encode() + b"\0").decode(),
    }


HOSTILE: dict[str, dict[str, Any]] = {
    "endless patterns": {"pre_tokenizer": split("(a+)+$")},
    "endless patterns without groups": {"pre_tokenizer": split("a?" * 23 + "a" * 23)},
    "in a sequence": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split("(a|aa){20}b")]}},
    "a long replacement": {"normalizer": replace("a" * 1000)},
    "many replacements": {"normalizer": {"type": "Sequence", "normalizers": [replace("a" * 10)] * 9}},
    "a table of long characters": {"normalizer": table("a" * 1000)},
    "many steps": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 1000}},
    "long words": {
        "model": {
            "type": "WordPiece",
            "vocab": {"a": 0},
            "unk_token": "a",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 10**9,
        }
    },
    "another kind of split": {"pre_tokenizer": {"type": "Program"}},
    "no model": {"model": 3},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tokenizers_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(UsageError, match="the tokenizer of the model is not used"):
        open_tokenizer(tokenizer(**HOSTILE[name]))


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"{}", b"[]", b'{"model": {}, "model": {}}'])
def test_damaged_tokenizers_are_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        open_tokenizer(content)


def test_the_steps_of_clip_and_siglip_are_used() -> None:
    spaces = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
    clip = tokenizer(
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, spaces, {"type": "Lowercase"}]},
        pre_tokenizer=split(CLIP),
    )
    assert _encode(open_tokenizer(clip), "A  a zebra") == [0, 0, 1]
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
    siglip = tokenizer(normalizer=spaces, pre_tokenizer={"type": "Whitespace"})
    assert _encode(open_tokenizer(siglip), "a a") == [0, 0]


def test_a_panic_of_the_library_is_one_line() -> None:
    class Panic(BaseException):
        pass

    class Tokenizer:
        def encode(self, text: str) -> Any:
            raise Panic("retry-limit-in-match over")

    with pytest.raises(UsageError, match="cannot read the text"):
        _encode(Tokenizer(), "a")
