"""What a tracker has been told for good, so that the next process need not tell it again."""

from __future__ import annotations

from pathlib import Path

from levelfield import files
from levelfield.track._entry import Entry


class Journal:
    """Entries that nothing more is expected of, by key and mark.

    Running entries are not noted: after a kill they are told again, and the tracker finds out itself what
    the tool holds of them.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._marks = {str(line["key"]): str(line["mark"]) for line in files.read_lines(file)}
        self._now: dict[str, str] = {}

    def knows(self, entry: Entry, mark: str) -> bool:
        """Whether the tool shows this entry as it is."""
        return self._now.get(entry.key, self._marks.get(entry.key)) == mark

    def is_settled(self, key: str) -> bool:
        """Whether nothing more is expected of this entry, and all was told."""
        return key in self._marks

    def note(self, entry: Entry, mark: str) -> None:
        """The tool was told."""
        self._now[entry.key] = mark
        if entry.status != "running":
            files.append_line(self._file, {"key": entry.key, "mark": mark})
            self._marks[entry.key] = mark
