"""Trackers: tools that show an experiment while it runs. They read records, and change nothing."""

from levelfield.track._entry import Entry, Point, Tracker
from levelfield.track._registry import TrackerCard, check, register, registry
from levelfield.track._send import folder_of, how_to_look, journal_file, send_records
from levelfield.track._watch import watching

__all__ = [
    "Entry",
    "Point",
    "Tracker",
    "TrackerCard",
    "check",
    "folder_of",
    "how_to_look",
    "journal_file",
    "register",
    "registry",
    "send_records",
    "watching",
]
