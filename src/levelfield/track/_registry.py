"""Registry of trackers, and the check of trackers before a run starts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from levelfield.config import TrackSpec
from levelfield.core.errors import UsageError
from levelfield.core.registry import Card, Registry


@dataclass(frozen=True, kw_only=True)
class TrackerCard(Card):
    """Card of a tracker.

    Attributes:
        package: Required Python package, installed by the extra with the tracker's name.
        viewer: Command that shows the tracker's files in ``{directory}``.
        environment: Environment variables that, like options, send the data elsewhere.
    """

    package: str = ""
    viewer: str = ""
    environment: tuple[str, ...] = ()


registry = Registry("tracker", TrackerCard, package="levelfield.track", supplied=("experiment", "directory"))
register = registry.register


def check_tracker(spec: TrackSpec) -> None:
    """Raise if the tracker is unknown or not installed, or does not take an option."""
    entry = registry[spec.name]
    if entry.card.package and find_spec(entry.card.package) is None:
        raise UsageError(
            f"tracker {spec.name} is not installed; `pip install 'levelfield[{spec.name}]'`, or leave it out"
        )
    registry.check_options(entry, spec.options)
