"""Conclusion of an experiment as a file, for readers that do not judge themselves."""

from __future__ import annotations

from pydantic import Field

from levelfield.records._models import Record


class VerdictRecord(Record):
    """Conclusion of an experiment: ``report/verdict.json``. `levelfield verify` compares it with the records.

    Attributes:
        use: Method to use; None if there is nothing to recommend.
        tied: Other methods that were not found worse than any method, best mean first.
        worse: Methods that another method was found better than, best mean first.
        beats_baseline: Methods that were found better than the baseline.
        answer: Which method to use and how it compares, one sentence each.
        ledger: Digest of the last line of the ledger that it was made from.
    """

    use: str | None = Field(default=None, max_length=500)
    tied: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    beats_baseline: tuple[str, ...] = ()
    answer: tuple[str, ...] = Field(default=(), max_length=20)
    ledger: str = ""

    @property
    def short(self) -> str:
        """The answer in a few words.

        Example:
            >>> VerdictRecord(use="triplet", tied=("arcface", "contrastive")).short
            'triplet, tied with 2; nothing beat the baseline'
        """
        if self.use is None:
            return self.answer[0] if self.answer else ""
        tied = f", tied with {len(self.tied)}" if self.tied else ""
        return f"{self.use}{tied}" + ("" if self.beats_baseline else "; nothing beat the baseline")

    @property
    def text(self) -> str:
        """The answer in one line."""
        return " ".join(self.answer)
