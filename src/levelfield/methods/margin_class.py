"""Margin loss with a boundary per class, the "Margin / class" of the reality check."""

from __future__ import annotations

from levelfield.methods import register
from levelfield.methods._method import Method


@register("margin_class", paper="Wu et al., Sampling Matters in Deep Embedding Learning, ICCV", year=2017)
def margin_class() -> Method:
    """Margin loss with a learned boundary for each class."""
    return Method(
        name="margin_class",
        loss="margin",
        fixed={"per_class": True},
    )
