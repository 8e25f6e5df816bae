"""Mailbox of the Ray driver. A module of its own, because the actor then starts without heavy imports."""

from __future__ import annotations

from typing import Any

Message = tuple[str, int, Any]  # kind, number of the task, content


class Mailbox:
    """Holds messages from tasks until the driver takes them.

    Example:
        >>> box = Mailbox()
        >>> box.put("started", 3, "machine a")
        >>> box.take(), box.take()
        ([('started', 3, 'machine a')], [])
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def put(self, kind: str, number: int, content: Any) -> None:
        """Add a message."""
        self._messages.append((kind, number, content))

    def take(self) -> list[Message]:
        """Return and remove all messages."""
        messages, self._messages = self._messages, []
        return messages
