"""Multi-similarity loss with its own miner, the "MS+Miner" of the reality check."""

from __future__ import annotations

from levelfield.methods import register
from levelfield.methods._method import Method


@register(
    "multi_similarity_miner",
    paper="Wang et al., Multi-Similarity Loss with General Pair Weighting, CVPR",
    year=2019,
)
def multi_similarity_miner() -> Method:
    """Multi-similarity loss on the pairs that its own miner keeps."""
    return Method(name="multi_similarity_miner", loss="multi_similarity", miner="multi_similarity")
