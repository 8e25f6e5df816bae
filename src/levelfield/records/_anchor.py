"""Anchor: the digest of the ledger's last line, kept where the experimenter cannot change it unseen.

Each line of the ledger holds the digest of the line before, and lines hold the digests of scores, trials and
selections. So the digest of the last line fixes everything before it.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field

from levelfield.core.errors import RunError, UsageError
from levelfield.records._models import Record
from levelfield.records._parse import read_record
from levelfield.records._provenance import environment, now
from levelfield.records._seal import seal_records
from levelfield.records._store import Store

DIGEST = re.compile(r"[0-9a-f]{16}")


class Anchor(Record):
    """Anchor of an experiment, as a file to publish.

    Attributes:
        experiment: Name of the experiment.
        digest: Digest of the ledger's last line.
        lines: Number of lines of the ledger; None if only the digest is known.
        records: Seals of revisions, trials and selections, which ledgers of earlier versions do not hold.
        time: Time in UTC.
        commit: Commit of levelfield.
    """

    experiment: str = ""
    digest: str = Field(pattern=DIGEST.pattern)
    lines: int | None = Field(default=None, ge=1)
    records: dict[str, str] = Field(default_factory=dict)
    time: str = ""
    commit: str | None = None

    @property
    def text(self) -> str:
        """The anchor in one line, for a git note, a tag, an e-mail or a paper."""
        return f"levelfield ledger of {self.experiment}: {self.lines} lines, digest {self.digest}"


def make_anchor(store: Store) -> Anchor:
    """Return the anchor of an experiment; raise UsageError if its ledger has no line."""
    name = store.experiment_record().experiment.name
    lines = store.ledger()
    if not lines:
        raise UsageError(
            f"{store.root} has no ledger yet: the test set was not opened; anchor it after `levelfield run`"
        )
    return Anchor(
        experiment=name,
        digest=lines[-1].line_id,
        lines=len(lines),
        records=seal_records(store),
        time=now(),
        commit=environment().commit,
    )


def read_anchor(given: str | Path) -> Anchor:
    """Return an anchor from its file, or from a digest of 16 hexadecimal digits."""
    file = Path(given)
    if file.is_file():
        try:
            return read_record(Anchor, file)
        except RunError as error:
            reason = str(error).partition(";")[0]
            raise UsageError(f"{reason}; give a file that `levelfield anchor --file` wrote") from error
    if DIGEST.fullmatch(str(given)):
        return Anchor(digest=str(given))
    raise UsageError(
        f"{given} is neither an anchor file nor a digest of 16 hexadecimal digits; "
        "`levelfield anchor RUNS --file FILE` writes one"
    )
