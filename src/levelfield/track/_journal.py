"""Journal of final records that were sent to a tracker; later processes do not send them again."""

from __future__ import annotations

from pathlib import Path

from levelfield.core import files
from levelfield.track._record import TrackerRecord


class SentJournal:
    """Final records that were sent, by key and content digest.

    Running records are not stored. After a kill they are sent again, and the tracker skips what its tool
    already holds.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._sent = {str(line["key"]): str(line["mark"]) for line in files.read_lines(file)}
        self._sent_now: dict[str, str] = {}

    def is_sent(self, record: TrackerRecord, content_digest: str) -> bool:
        """Return True if the record was sent with this content."""
        return self._sent_now.get(record.key, self._sent.get(record.key)) == content_digest

    def is_final(self, key: str) -> bool:
        """Return True if the record is final and was sent."""
        return key in self._sent

    def add(self, record: TrackerRecord, content_digest: str) -> None:
        """Note that the record was sent."""
        self._sent_now[record.key] = content_digest
        if record.status != "running":
            files.append_line(self._file, {"key": record.key, "mark": content_digest})
            self._sent[record.key] = content_digest
