"""Shared by all tests: one cache for rendered data, tiny experiments, the order and durations of tests."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
os.environ.setdefault("LEVELFIELD_CACHE", str(HERE.parent / ".cache"))
os.environ.setdefault("COLUMNS", "200")

LONG = ("slow", "browser", "ray")  # marks of the tests that `make quick` leaves out
TOY_PLUGIN = HERE / "helpers" / "toy_plugin.py"
# Collecting doctests would register its loss, and import more than the tests need.
collect_ignore = ["helpers/delayed_plugin.py", "helpers/warm_imports.py"]

# No deadline: a busy machine must not fail a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True, scope="session")
def _no_log_of_openings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests out of the user's log of openings, and tests of the same data out of each other's notes."""
    directory, numbers = tmp_path_factory.mktemp("openings"), count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "levelfield.records._openings.log_file", lambda data: directory / f"{next(numbers)}.jsonl"
        )
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_sync_to_disk() -> Iterator[None]:
    """Leave out waits for the disk: they protect from power failures only, and take half of a tiny run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def tiny() -> dict[str, Any]:
    """Values of an experiment that takes 3 to 6 s of CPU: 3 methods on 24 classes of toy images."""
    return tiny_values()


def tiny_values() -> dict[str, Any]:
    """Return the values of the fixture ``tiny``."""
    return {
        "name": "tiny",
        "plugins": [str(TOY_PLUGIN)],
        "dataset": {"name": "toy_images"},
        "split": {"name": "class_disjoint", "folds": 2},
        "trunk": {"name": "conv4", "width": 4, "in_channels": 1},
        "head": {"size": 8},
        "batch": {"size": 12, "samples_per_class": 3, "samples_per_class_classification": 2},
        "optimizer": {"name": "adam", "lr": 3e-3},
        "training": {"iterations_per_epoch": 4, "max_epochs": 4, "evaluate_every": 2, "patience": 3},
        "methods": ["contrastive", "triplet", "normalized_softmax"],
        "search": {"trials": 2, "sampler": "random"},
        "confirm": {"reruns": 2, "gallery": 0},
        "engine": {"workers": 0},
    }


@pytest.fixture(scope="session")
def _finished_tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the finished experiment ``tiny``, written once per worker process; never change it."""
    import levelfield as lf

    root = tmp_path_factory.mktemp("finished") / "tiny"
    lf.run(tiny_values(), root)
    return root


@pytest.fixture
def finished_tiny(_finished_tiny: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the finished experiment ``tiny`` to a directory of the test's own."""

    def copy(name: str = "tiny") -> Path:
        return Path(shutil.copytree(_finished_tiny, tmp_path / name))

    return copy


# Long tests start first, dealt to both halves of the list, so that no worker ends with a long test alone.


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests in a browser; now, because ``-m`` chooses right after the collection.

    Tests with processes, browsers and clusters get a second attempt. pytest reports it as "rerun".
    """
    if "open_page" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.browser)
    if any(map(item.get_closest_marker, LONG)):
        item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start long tests first."""
    long = [item for item in items if any(map(item.get_closest_marker, LONG))]
    if not long:
        return
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in long:
        by_file.setdefault(item.path, []).append(item)
    # By file, because the tests of a file share what is slow to set up; Ray first, so that none is moved.
    files = sorted(
        by_file.values(), key=lambda items: (items[0].get_closest_marker("ray") is None, -len(items))
    )
    halves = [[item for items in files[start::2] for item in items] for start in (0, 1)]
    chosen = set(long)
    short = [item for item in items if item not in chosen]
    half = len(short) // 2
    items[:] = [*halves[0], *short[:half], *halves[1], *short[half:]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--durations-file``."""
    parser.addoption(
        "--durations-file", metavar="FILE", help="write second attempts, skips, and seconds by test to FILE"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the file of durations: second attempts and skipped tests, then seconds by part and by test."""
    if not (file := config.getoption("--durations-file")):
        return
    tests: dict[str, float] = defaultdict(float)
    stats = terminalreporter.stats
    for reports in stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                tests[report.nodeid] += report.duration
    parts: dict[str, float] = defaultdict(float)
    for name, seconds in tests.items():
        parts["/".join(name.partition("::")[0].split("/")[:2])] += seconds
    lines = [f"{sum(tests.values()):8.1f}  all of {len(tests)} tests, seconds of all workers"]
    again = sorted(report.nodeid for report in stats.get("rerun", ()))
    left_out = [f"{report.nodeid}: {report.longrepr[2]}" for report in stats.get("skipped", ())]
    for title, names in (("second attempt", again), ("skipped", sorted(left_out))):
        lines += ["", *(f"  {title}: {name}" for name in names)] if names else []
    for table in (parts, {name: seconds for name, seconds in tests.items() if seconds >= 0.2}):
        lines += ["", *(f"{table[name]:8.1f}  {name}" for name in sorted(table, key=lambda n: -table[n]))]
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")
