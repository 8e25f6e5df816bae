"""Odd YAML is refused in one line that names the place; nothing hangs and nothing is silently dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from levelfield.cli.data import parse_options
from levelfield.config import Experiment, parse_yaml
from levelfield.core.errors import UsageError
from levelfield.core.registry import load_plugin_file
from levelfield.data import load
from levelfield.protocol import resolve_experiment

# Each list holds nine times the list before: 43 million values in 400 characters.
LAUGHS = (
    "x: 1\na: [" + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(8)) + "]"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: 1\nb: 2\na: 3",
            r'^f, line 3: the key "a" is given twice \(first in line 1\); keep one of them$',
        ),
        ("a:\n  b: {c: 1, c: 2}", r'^f, line 2: the key "c" is given twice'),
        (
            "a: 1\nb: 2024-99-99",
            r'^f, line 2: "2024-99-99" is not a valid timestamp; correct it or quote it$',
        ),
        ("a: !!int x", r'^f, line 1: "x" is not a valid int'),
        ("a: !!float x", r'^f, line 1: "x" is not a valid float'),
        ("a: !!bool x", r'^f, line 1: "x" is not a valid bool'),
        ("a: !!timestamp x", r'^f, line 1: "x" is not a valid timestamp'),
        ("a: " + "9" * 5000, r'^f, line 1: "9{40}" is not a valid int'),
        ("a: 0x" + "f" * 5000, r"^f, line 1: the number has more than 400 digits$"),
        ("a: " + "[" * 3000 + "]" * 3000, r"^f, line 1: more than 50 levels of lists and mappings$"),
        ("a: " + "{b: " * 3000, r"^f, line 1: more than 50 levels of lists and mappings$"),
        ("a: &a [*a]", r"^f, line 1: the alias \*a is a part of itself$"),
        (LAUGHS, r"^f, line 2: more than 200,000 values, with aliases written out$"),
        ("x" * 2_000_000, r"^f has more than 1,000,000 characters; it is no experiment file$"),
    ],
    ids=lambda value: value[:20],
)
def test_odd_yaml_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_yaml(text, origin="f")


def test_a_merge_key_may_be_overridden() -> None:
    text = "base: &base {a: 1, b: 2}\nhere: {<<: *base, b: 3}"
    assert parse_yaml(text, origin="f")["here"] == {"a": 1, "b": 3}


def test_options_of_the_command_line_have_the_same_rules() -> None:
    with pytest.raises(UsageError, match="is not a valid timestamp"):
        parse_options(["root=2024-99-99"])


@pytest.mark.parametrize("path", ["a\0b.py", "x" * 5000 + ".py"])
def test_a_plugin_path_that_cannot_be_opened(path: str) -> None:
    with pytest.raises(UsageError, match=r"^plug-in file .* cannot be opened: .*; correct it$"):
        load_plugin_file(path)


@pytest.mark.parametrize("dataset", ["folder", "csv", "cub200"])
@pytest.mark.parametrize("root", ["x" * 5000, "x/" * 5000], ids=["name", "path"])
def test_a_root_that_is_too_long(dataset: str, root: str) -> None:
    with pytest.raises(UsageError):
        load(dataset, root=root)


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("this system has no /dev/zero")
    with pytest.raises(UsageError, match="more than 1,000,000 characters"):
        Experiment.load("/dev/zero")
    with pytest.raises(UsageError, match="cannot be read"):
        Experiment.load("a\0b.yaml")


def test_no_number_of_folds_hangs(tiny: dict[str, Any]) -> None:
    tiny["batch"] |= {"adapt": True}
    tiny["split"] |= {"folds": 10**12}
    with pytest.raises(UsageError, match="development classes cannot make 1000000000000 folds"):
        resolve_experiment(Experiment.build(**tiny))


def test_color_images_do_not_fit_a_trunk_for_gray_ones(tiny: dict[str, Any], tmp_path: Path) -> None:
    for number in range(48):
        file = tmp_path / f"class {number // 4}" / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(file)
    values = tiny | {
        "dataset": {"name": "folder", "root": str(tmp_path)},
        "batch": {"size": 4, "samples_per_class": 2},
    }
    with pytest.raises(
        UsageError, match=r"the images have 3 channels, .* takes 1; set trunk\.in_channels: 3"
    ):
        resolve_experiment(Experiment.build(**values))


def test_no_metrics_are_refused_before_anything_is_computed(tiny: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r'"metrics" = \[\]: name at least one metric'):
        Experiment.build(**tiny | {"metrics": []})
