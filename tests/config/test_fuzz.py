"""Mutated experiment files: each is accepted or raises a one-line error; none crashes or hangs.

``make test`` tries a few hundred. For more, from the root of the repository::

    LEVELFIELD_FUZZ=10000 pytest tests/config/test_fuzz.py
"""

from __future__ import annotations

import copy
import datetime
import math
import os
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import tiny_values

from levelfield import losses, methods, metrics, miners, models, samplers
from levelfield.config import Experiment, preset_names
from levelfield.core.errors import LevelfieldError
from levelfield.core.registry import Registry
from levelfield.data import registry as datasets
from levelfield.data import splits, transforms
from levelfield.losses import regularizers
from levelfield.protocol import resolve_experiment

CASES = int(os.environ.get("LEVELFIELD_FUZZ", "300"))
SECONDS = 30  # per file; resolving takes some milliseconds
BYTES = 6 << 30  # additional memory; a size that needs more should be an error

ODD: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 10**5, 2**31, 2**63, 10**30, -(10**30)),
    *(-0.5, 0.0, 1e-3, 0.5, 1.0, 1.5, 1e30, math.nan, math.inf, -math.inf),
    *(
        "",
        "x",
        "1e-3",
        "3",
        ".nan",
        "none",
        "null",
        "a b",
        "a\0b",
        "../..",
        "/",
        "ü€😀",
        "\n",
        "x" * 5000,
        "log",
        "%s{}",
    ),
    *(
        [],
        [1],
        [0, 1],
        [1, 0],
        [0.1, 1.0, "log"],
        [0, 1, "step", 0],
        [0, 1, "step", "x"],
        [0, 1, "step", 1e-30],
    ),
    *(
        [None],
        [[1]],
        ["x", 1],
        {},
        {"x": 1},
        {1: 2},
        {"name": None},
        {"name": "x"},
        datetime.date(2026, 11, 16),
    ),
    *(
        [0, 10**30],
        [1, 2**62],
        [0.0, math.inf],
        [math.nan, 1.0],
        [True, False],
        [1e-300, 1e300, "log"],
        b"bytes",
    ),
]

PLUGINS = {
    "dataset": datasets,
    "split": splits.registry,
    "trunk": models.registry,
    "transform": transforms.registry,
}
FAMILIES = {
    "dataset": [
        "torchvision:CIFAR10",
        "torchvision:Nothing",
        "hf:missing/missing",
        "hf:",
        "toy_images",
    ],
    "split": [],
    "trunk": ["timm:resnet10t", "timm:nothing", "timm:"],
    "transform": [],
}
METHOD_PARTS: dict[str, Registry[Any, Any]] = {
    "loss": losses.registry,
    "miner": miners.registry,
    "sampler": samplers.registry,
}
PART_FAMILIES = {"loss": ["pml:TripletMarginLoss", "pml:Nothing"], "miner": ["pml:HDCMiner"], "sampler": []}


@st.composite
def values(draw: st.DrawFn) -> Any:
    """Return a value that may be valid."""
    if draw(st.booleans()):
        return copy.deepcopy(draw(st.sampled_from(ODD)))
    return draw(st.one_of(st.integers(-5, 300), st.floats(-2, 2), st.floats(), st.text(max_size=8)))


@st.composite
def options(draw: st.DrawFn, registry: Any, name: str) -> dict[str, Any]:
    """Return options of a plug-in: mostly names of its signature, with any values."""
    try:
        known = list(registry[name].parameters)
    except LevelfieldError:
        known = []
    names = draw(st.lists(st.sampled_from([*known * 3, "seed", "nonsense"]), max_size=2, unique=True))
    return {option: draw(values()) for option in names}


@st.composite
def method(draw: st.DrawFn) -> Any:
    """Return one item of ``methods``: a name, or a combination of parts with ``set`` and ``space``."""
    known = [*methods.registry.names(), *losses.registry.names()]
    item: dict[str, Any] = {"name": draw(st.sampled_from([*known, "mine", "tripelt"]))}
    for part, registry in METHOD_PARTS.items():
        if draw(st.integers(0, 3)) == 0:
            item[part] = draw(st.sampled_from([*registry.names(), *PART_FAMILIES[part], "nothing"]))
    flat = [
        "loss_lr",
        "mixup.alpha",
        "memory.capacity",
        "memory.start",
        "nonsense",
        "miner.margin",
        "sampler.bins",
    ]
    flat += [f"regularizer.{name}" for name in regularizers.registry.names()]
    for name, prefix, registry in (
        (item.get("loss", item["name"]), "", losses.registry),
        (item.get("miner"), "miner.", miners.registry),
        (item.get("sampler"), "sampler.", samplers.registry),
    ):
        if name in registry.names():
            flat += [prefix + parameter for parameter in registry[name].parameters] * 3
    for key in ("set", "space"):
        if draw(st.booleans()):
            names = draw(st.lists(st.sampled_from(flat), max_size=2, unique=True))
            wanted = values() if key == "set" else st.lists(values(), max_size=4) | values()
            item[key] = {name: draw(wanted) for name in names}
    if draw(st.integers(0, 3)) == 0:
        item[draw(st.sampled_from(["samples_per_class", "name", "set", "space", "loss", "x"]))] = draw(
            values()
        )
    return item


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in nested mappings and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def schema_places() -> list[tuple[str, ...]]:
    """Yield every key of the schema, also those that no base experiment sets."""
    found: list[tuple[str, ...]] = []
    for name, field in Experiment.model_fields.items():
        found.append((name,))
        found += [(name, key) for key in getattr(field.annotation, "model_fields", {})]
    return found


SCHEMA = schema_places()


def put(tree: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    """Set the value at ``path``, if the path exists."""
    at: Any = tree
    for key in path[:-1]:
        if isinstance(at, dict):
            at = at.setdefault(key, {})
        elif isinstance(at, list) and isinstance(key, int) and key < len(at):
            at = at[key]
        else:
            return
    if isinstance(at, dict) or (isinstance(at, list) and isinstance(path[-1], int) and path[-1] < len(at)):
        at[path[-1]] = value


@st.composite
def experiments(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """Return the text of an experiment file and ``--set`` overrides."""
    tree: dict[str, Any] = copy.deepcopy(tiny_values())
    if draw(st.integers(0, 2)) == 0:
        kept = {"plugins", "dataset"} | set(draw(st.lists(st.sampled_from(sorted(tree)), max_size=4)))
        tree = {"preset": draw(st.sampled_from(preset_names()))} | {
            k: v for k, v in tree.items() if k in kept
        }
    for _ in range(draw(st.sampled_from([1, 1, 1, 1, 2, 3]))):
        match draw(st.integers(0, 6)):
            case 0:
                put(tree, draw(st.sampled_from(list(places(tree)))), draw(values()))
            case 1:
                put(tree, draw(st.sampled_from(SCHEMA)), draw(values()))
            case 2:
                section = draw(st.sampled_from(sorted(PLUGINS)))
                registry: Any = PLUGINS[section]
                name = draw(st.sampled_from([*registry.names(), *FAMILIES[section]]))
                tree[section] = {"name": name, **draw(options(registry, name))}
            case 3:
                tree["methods"] = draw(
                    st.lists(method() | st.sampled_from(methods.registry.names()), max_size=3)
                )
            case 4:
                section = draw(st.sampled_from(sorted(PLUGINS)))
                if isinstance(tree.get(section), dict) and isinstance(tree[section].get("name"), str):
                    tree[section] |= draw(options(PLUGINS[section], tree[section]["name"]))
            case 5:
                known = [
                    *metrics.registry.names(),
                    "recall_at_8",
                    "recall_at_0",
                    "map_at_99999999999999999999",
                ]
                put(tree, ("metrics",), draw(st.lists(st.sampled_from(known), max_size=3)))
                put(tree, ("training", "metric"), draw(st.sampled_from(known)))
            case _:
                path = draw(st.sampled_from(list(places(tree))))
                if len(path) == 1:
                    tree.pop(path[0])
                    tree = tree or {"name": "x"}
    text = yaml.dump(tree, allow_unicode=True)
    if draw(st.integers(0, 7)) == 0:  # a typing error
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + draw(st.sampled_from(["", ":", "\t", "- ", "{", "&a ", "*a", "\x07", "!!python/x ", "'"]))
            + text[at + draw(st.integers(0, 2)) :]
        )
    override = st.builds(lambda path, value: f"{'.'.join(path)}={value}", st.sampled_from(SCHEMA), values())
    return text, (draw(override),) if draw(st.integers(0, 4)) == 0 else ()


class TooSlowError(BaseException):
    """Not an Exception, so that no handler catches it."""


@contextmanager
def limits() -> Iterator[None]:
    """Limit the time and memory of one case."""

    def stop(*_: object) -> None:
        raise TooSlowError

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def outcome(text: str, overrides: tuple[str, ...]) -> str:
    """Return the outcome for a file: "accepted", "refused", or a description of the failure."""
    file = Path("fuzz.yaml")
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        with limits():
            resolve_experiment(Experiment.load(file, overrides))
    except LevelfieldError as error:
        message = str(error)
        return "refused" if message and len(message.splitlines()) == 1 else f"not one line: {message!r}"
    except TooSlowError:
        return f"more than {SECONDS} seconds"
    except BaseException as error:
        trace, last = error.__traceback__, ""
        while trace is not None:
            last = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
            trace = trace.tb_next
        return f"{type(error).__name__} in {last}: {str(error)[:200]}"
    return "accepted"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited by way of /proc")
def test_every_mutated_file_is_accepted_or_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    seen: Counter[str] = Counter()
    wrong: list[str] = []

    @settings(
        max_examples=CASES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=experiments())
    def attempt(case: tuple[str, tuple[str, ...]]) -> None:
        result = outcome(*case)
        seen[result if result in ("accepted", "refused") else "wrong"] += 1
        if result not in ("accepted", "refused"):
            wrong.append(f"{result}\n{case[0]}{case[1]}")

    attempt()
    print(f"{sum(seen.values())} files: {dict(seen)}")
    kinds = Counter(each.splitlines()[0] for each in wrong)
    assert not wrong, f"{len(wrong)} of {sum(seen.values())}: {kinds.most_common(30)}\n\n" + "\n---\n".join(
        wrong[:5]
    )
    assert seen["accepted"] > CASES // 20, "the mutations are so wild that hardly a file is right"
