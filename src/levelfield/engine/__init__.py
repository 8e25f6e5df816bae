"""Where runs execute: in this process, or in local processes."""

from levelfield.engine._local import Engine

__all__ = ["Engine"]
