"""Text tower of a two-tower model (CLIP, SigLIP): text in, vectors in the space of the images out.

Layers and tensors are named as in open_clip, whose checkpoints can therefore be loaded as they are.
"""

from __future__ import annotations

import string
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.retrieval.embedders._card import TextArchitecture
from levelfield.retrieval.embedders._tokenizer import check_tokenizer

MAX_CHARACTERS = 10_000  # of one text; models read at most their context, a few dozen words
BATCH = 64
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class QuickGelu(nn.Module):
    """Activation of the first CLIP models, ``x * sigmoid(1.702 x)``."""

    def forward(self, values: Tensor) -> Tensor:
        """Return the activations."""
        return values * torch.sigmoid(1.702 * values)


class _Block(nn.Module):
    """Transformer block with its norms before attention and MLP."""

    def __init__(self, shape: TextArchitecture) -> None:
        super().__init__()
        activations = {"gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"), "quick_gelu": QuickGelu()}
        self.ln_1 = nn.LayerNorm(shape.width, eps=shape.eps)
        self.attn = nn.MultiheadAttention(shape.width, shape.heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(shape.width, eps=shape.eps)
        self.mlp = nn.Sequential(
            OrderedDict(
                c_fc=nn.Linear(shape.width, shape.hidden),
                gelu=activations[shape.activation],
                c_proj=nn.Linear(shape.hidden, shape.width),
            )
        )

    def forward(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Return the values (B x T x W) after attention and MLP."""
        normed = self.ln_1(values)
        values = values + self.attn(normed, normed, normed, need_weights=False, attn_mask=mask)[0]
        mixed: Tensor = values + self.mlp(self.ln_2(values))
        return mixed


class TextTower(nn.Module):
    """Network from token ids to vectors.

    Example:
        >>> shape = TextArchitecture(vocabulary=50, context=8, width=16, layers=1, heads=2, hidden=32, size=4)
        >>> TextTower(shape)(torch.zeros(3, 8, dtype=torch.int64)).shape
        torch.Size([3, 4])
    """

    def __init__(self, shape: TextArchitecture) -> None:
        super().__init__()
        self.shape = shape
        self.token_embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.positional_embedding = nn.Parameter(torch.zeros(shape.context, shape.width))
        self.transformer = nn.Module()
        self.transformer.resblocks = nn.ModuleList(_Block(shape) for _ in range(shape.layers))
        self.ln_final = nn.LayerNorm(shape.width, eps=shape.eps)
        self.text_projection: nn.Linear | nn.Parameter
        if shape.projection_bias:
            self.text_projection = nn.Linear(shape.width, shape.size)
        else:
            self.text_projection = nn.Parameter(torch.zeros(shape.width, shape.size))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return unit vectors (B x D) of token ids (B x T)."""
        length = tokens.shape[1]
        values = self.token_embedding(tokens) + self.positional_embedding[:length]
        mask = None
        if self.shape.causal:
            mask = torch.full((length, length), -torch.inf, device=tokens.device).triu(1)
        for block in self.transformer.get_submodule("resblocks").children():
            values = block(values, mask)
        values = self.ln_final(values)
        # CLIP ends a text with the token of the highest number; SigLIP reads the last place.
        place = tokens.argmax(1) if self.shape.pooling == "end" else torch.full_like(tokens[:, 0], length - 1)
        pooled = values[torch.arange(len(tokens), device=tokens.device), place]
        projection = self.text_projection
        return F.normalize(
            projection(pooled) if isinstance(projection, nn.Linear) else pooled @ projection, dim=1
        )


class TextEncoder(nn.Module):
    """Text tower with its tokenizer.

    Args:
        tower: Network.
        tokenizer: Content of a ``tokenizer.json`` of Hugging Face's library tokenizers.
    """

    def __init__(self, tower: TextTower, tokenizer: bytes) -> None:
        super().__init__()
        self.tower = tower
        self._content = tokenizer
        self._tokenizer: Any = None  # opened with the first text: images need none
        self.eval().requires_grad_(False)

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """Return the token ids of texts (N x T), cut or padded to the context of the model."""
        shape = self.tower.shape
        if self._tokenizer is None:
            self._tokenizer = open_tokenizer(self._content)
        rows = []
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                raise UsageError("the text of the query is empty; give some words")
            if len(text) > MAX_CHARACTERS:
                raise UsageError(f"the text has {len(text):,} characters; give at most {MAX_CHARACTERS:,}")
            found = _encode(self._tokenizer, clean_text(text, shape))
            if len(found) > shape.context:  # the last token ends the text
                found = [*found[: shape.context - 1], found[-1]]
            rows.append(found + [shape.padding] * (shape.context - len(found)))
        ids = torch.tensor(rows, dtype=torch.int64)
        if int(ids.max()) >= shape.vocabulary:
            raise UsageError(
                f"the tokenizer has token {int(ids.max())}, the text tower only {shape.vocabulary} tokens; "
                "give the tokenizer of this model"
            )
        return ids

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Return unit vectors (N x D, float32, on the CPU) of texts."""
        ids = self.tokens(texts).to(self.tower.positional_embedding.device)
        with torch.inference_mode():
            return torch.cat(
                [self.tower(ids[at : at + BATCH]).cpu().float() for at in range(0, len(ids), BATCH)]
            )


def _encode(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a text."""
    try:
        return list(tokenizer.encode(text).ids)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library is written in Rust, whose panics are no Exception
        raise UsageError(
            f"the tokenizer cannot read the text ({str(error)[:100]}); give the tokenizer of this model"
        ) from error


def clean_text(text: str, shape: TextArchitecture) -> str:
    """Return a text as the tokenizer expects it: lower case, single spaces; SigLIP has no punctuation.

    Example:
        >>> shape = TextArchitecture(
        ...     vocabulary=9, context=8, width=16, layers=1, heads=2, hidden=32, size=4, punctuation=False
        ... )
        >>> clean_text(" A  red-bird. ", shape)
        'a redbird'
    """
    if not shape.punctuation:
        text = text.replace("_", " ").translate(_NO_PUNCTUATION)
    return " ".join(text.lower().split())


def open_tokenizer(content: bytes) -> Any:
    """Return the tokenizer in the content of a ``tokenizer.json``."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UsageError("text queries need tokenizers; run pip install 'levelfield[text]'") from error
    check_tokenizer(content)
    try:
        opened = Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:  # the library raises plain exceptions
        raise UsageError(
            f"this is not a tokenizer.json of the library tokenizers ({str(error)[:100]}); give the file of "
            "the model"
        ) from error
    opened.no_padding()
    opened.no_truncation()
    return opened


def text_architecture(state: Mapping[str, Tensor], **given: Any) -> TextArchitecture:
    """Return the architecture of the text tower in open_clip's tensors, without their prefix ``text.``.

    A tower whose projection has a bias is SigLIP's: all tokens see each other, and the last one is read.
    Other towers are CLIP's.

    Args:
        state: Tensors by name.
        given: Values that the tensors do not show, such as ``activation``.
    """
    try:
        vocabulary, width = state["token_embedding.weight"].shape
        hidden = state["transformer.resblocks.0.mlp.c_fc.weight"].shape[0]
        context = state["positional_embedding"].shape[0]
        is_siglip = "text_projection.bias" in state
        size = state["text_projection.weight"].shape[0] if is_siglip else state["text_projection"].shape[1]
    except (KeyError, ValueError, IndexError) as error:
        raise UsageError(
            f"the checkpoint has no text tower in the naming of open_clip ({error} is missing); convert it "
            "with open_clip first"
        ) from error
    blocks = {int(key.split(".")[2]) for key in state if key.startswith("transformer.resblocks.")}
    style: dict[str, Any] = {"causal": True, "pooling": "end"}
    if is_siglip:
        style = {
            "causal": False,
            "pooling": "last",
            "eps": 1e-6,
            "projection_bias": True,
            "punctuation": False,
            "padding": 1,
        }
    return TextArchitecture(
        vocabulary=vocabulary,
        context=context,
        width=width,
        layers=len(blocks),
        heads=given.pop("heads", max(1, width // 64)),
        hidden=hidden,
        size=size,
        **{**style, **given},
    )
