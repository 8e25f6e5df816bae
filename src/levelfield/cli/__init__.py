"""Command line: one small file per verb, no logic.

Heavy packages are imported only when a verb runs, so that ``levelfield --help`` is fast.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any


def main() -> None:
    """Run the command line; errors become one line on stderr and an exit code."""
    from levelfield.cli._app import run_app

    warnings.formatwarning = _format_warning
    sys.exit(run_app(sys.argv[1:]))


def _format_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> str:
    """Return a warning as one line, without the place in the code."""
    kind = "warning" if category.__module__.startswith("levelfield") else category.__name__
    return f"{kind}: {message}\n"
