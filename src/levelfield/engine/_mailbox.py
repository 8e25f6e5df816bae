"""Where tasks of a cluster leave messages for the driver; alone in its module, so that it starts at once."""

from __future__ import annotations

from typing import Any

Message = tuple[str, int, Any]  # what it is, the number of the task, and what it says


class Mailbox:
    """Keeps messages until they are taken.

    Example:
        >>> box = Mailbox()
        >>> box.put("began", 3, "machine a")
        >>> box.take(), box.take()
        ([('began', 3, 'machine a')], [])
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def put(self, kind: str, number: int, content: Any) -> None:
        """Leave a message."""
        self._messages.append((kind, number, content))

    def take(self) -> list[Message]:
        """All messages since the last time."""
        found, self._messages = self._messages, []
        return found
