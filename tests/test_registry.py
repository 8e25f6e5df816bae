from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.errors import RunError, UsageError
from levelfield.registry import Card, Entry, Registry, load_plugin_file


def make() -> Registry[Card]:
    shapes: Registry[Card] = Registry("shape", Card)

    @shapes.register("square", paper="Euclid", year=-300)
    class Square:
        """Four equal sides.

        And four right angles.
        """

        def __init__(self, *, side: float = 1.0) -> None:
            self.side = side

    return shapes


def test_creates_by_name_and_keeps_the_card() -> None:
    shapes = make()
    assert shapes.create("square", side=2.0).side == 2.0
    assert shapes["square"].card == Card(
        name="square", summary="Four equal sides.", paper="Euclid", year=-300
    )


def test_unknown_names_and_options_are_refused_with_a_suggestion() -> None:
    shapes = make()
    with pytest.raises(UsageError, match=r'unknown shape "squre"; did you mean "square"\?'):
        shapes.create("squre")
    with pytest.raises(UsageError, match=r'"square" has no parameter "sid"; did you mean "side"\?'):
        shapes.create("square", sid=1)


def test_a_name_belongs_to_one_plugin() -> None:
    shapes = make()
    with pytest.raises(UsageError, match="registered already"):
        shapes.register("square")(lambda: None)


def test_a_cell_that_is_run_twice_may_register_again() -> None:
    shapes: Registry[Card] = Registry("shape", Card)
    for _ in range(2):

        @shapes.register("circle")
        def circle() -> None:
            """Round."""

    assert shapes.names() == ["circle"]


def test_a_family_resolves_names_with_a_prefix() -> None:
    shapes = make()

    @shapes.family("polygon")
    def polygon(rest: str) -> Entry[Card]:
        return Entry(lambda: int(rest), Card(name=f"polygon:{rest}"))

    assert shapes.create("polygon:5") == 5
    assert "polygon:7" in shapes


def test_plugin_files_load_once_and_name_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_plugin_file(tmp_path / "none.py")
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(RunError, match=r"broken\.py fails on import: ZeroDivisionError"):
        load_plugin_file(broken)
    counted = tmp_path / "counted.py"
    counted.write_text(f"open({str(tmp_path / 'count')!r}, 'a').write('x')")
    load_plugin_file(counted)
    load_plugin_file(counted)
    assert (tmp_path / "count").read_text() == "x"


def test_a_plugin_from_outside_is_fingerprinted_by_its_file(tmp_path: Path) -> None:
    from levelfield import losses

    def fingerprint(text: str, name: str) -> str | None:
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        load_plugin_file(file)
        return losses.registry[name].fingerprint

    template = "import levelfield as lf\n@lf.losses.register('{0}')\ndef f() -> None:\n    return {1}\n"
    first = fingerprint(template.format("outside_one", 1), "outside_one")
    other = fingerprint(template.format("outside_two", 2), "outside_two")
    assert first and other and first != other
    assert losses.registry["triplet"].fingerprint is None
