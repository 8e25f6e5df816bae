"""What worker processes have in common."""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """In a worker: end when the process that started it is gone, however that one ended.

    A killed parent cannot tell its workers to stop; without this they would wait for work for ever.
    Hand it to a process pool as ``initializer``. In a process that is nobody's worker it does nothing.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
