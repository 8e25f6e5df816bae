"""Run one attack with a time limit and sort its end: refused in one line, accepted, or a bug."""

from __future__ import annotations

import json
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levelfield.core.errors import LevelfieldError

SECONDS = 10


class TooSlow(BaseException):
    """Raised when an attack takes longer than the limit."""


@dataclass
class Score:
    """Ends of all attacks so far."""

    ends: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    bugs: list[str] = field(default_factory=list)

    def attack(self, name: str, function: Callable[[], Any]) -> None:
        """Run ``function``; anything but a result or an error of levelfield within the limit is a bug."""
        signal.signal(signal.SIGALRM, _alarm)
        signal.alarm(SECONDS)
        began = time.monotonic()
        try:
            function()
            self.ends["accepted"] += 1
        except LevelfieldError:
            self.ends["refused in one line"] += 1
        except TooSlow:
            self.ends["too slow"] += 1
            self.bugs.append(f"{name}: slower than {SECONDS} s")
        except BaseException as error:
            self.ends["unexpected error"] += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}"[:200]
            self.bugs.append(f"{name}: {text} ({where.filename.rpartition('/')[2]}:{where.lineno})")
        finally:
            signal.alarm(0)
            self.slowest = max(self.slowest, time.monotonic() - began)

    @property
    def done(self) -> int:
        """Number of attacks so far."""
        return sum(self.ends.values())

    @classmethod
    def resume(cls, file: Path | None) -> Score:
        """Return the score that an interrupted attack left in ``file``, or an empty one."""
        if file is None or not file.exists():
            return cls()
        values = json.loads(file.read_text())
        return cls(Counter(values["ends"]), values["slowest"], values["bugs"])

    def save(self, file: Path) -> None:
        """Write the score, so that the same command goes on from here."""
        part = file.with_name(file.name + ".part")
        part.write_text(json.dumps({"ends": self.ends, "slowest": self.slowest, "bugs": self.bugs}, indent=1))
        part.replace(file)

    def show(self) -> int:
        """Print the score and return the exit code: 1 if there are bugs."""
        for end, count in sorted(self.ends.items()):
            print(f"{end}: {count:,}")
        print(f"slowest: {self.slowest:.2f} s")
        for bug in self.bugs[:40]:
            print(f"BUG {bug}")
        print(f"{self.done:,} attacks, {len(self.bugs)} bugs")
        return 1 if self.bugs else 0


def _alarm(*_: object) -> None:
    raise TooSlow
