from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from levelfield import losses
from levelfield.errors import RunError, UsageError
from levelfield.registry import Card, Entry, Registry, load_plugin_file, loaded_plugins, plugin_digest_now


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


LOSS = "import levelfield as lf\n{0}\n@lf.losses.register('{1}')\ndef f() -> None:\n    return {2}\n"


def write_loss(folder: Path, name: str, *, head: str = "", value: object = 1) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(LOSS.format(head, name, value))
    return file


def test_a_plugin_from_outside_has_the_hash_of_its_file(tmp_path: Path) -> None:
    for name, value in (("outside_one", 1), ("outside_two", 2)):
        load_plugin_file(write_loss(tmp_path, name, value=value))
    first, other = losses.registry["outside_one"].source, losses.registry["outside_two"].source
    assert first and other and first != other
    assert losses.registry["triplet"].source is None
    assert loaded_plugins()["outside_one.py"] == first


def test_the_hash_is_that_of_the_code_that_runs(tmp_path: Path) -> None:
    """A file that is edited after it was imported keeps the hash of what was imported."""
    file = write_loss(tmp_path, "outside_edited")
    before = load_plugin_file(file)
    write_loss(tmp_path, "outside_edited", value=2)
    assert losses.registry["outside_edited"].source == before == load_plugin_file(file)


def test_modules_beside_a_plugin_count_too(tmp_path: Path) -> None:
    """An edited helper module, also one that another helper imports, makes another plug-in."""
    code = "import sys; from levelfield.registry import load_plugin_file as f; print(f(sys.argv[1]))"
    file = write_loss(tmp_path, "outside_alone", head="from kin import deep")
    (tmp_path / "kin.py").write_text("import deep\n")
    (tmp_path / "deep.py").write_text("A = 1\n")

    def in_a_new_process() -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    first = in_a_new_process()
    assert in_a_new_process() == first
    (tmp_path / "deep.py").write_text("A = 2\n")
    assert in_a_new_process() != first


@pytest.mark.parametrize("edited", ["package/__init__.py", "package/core.py", "package/inner.py"])
def test_every_file_of_a_package_beside_a_plugin_counts(tmp_path: Path, edited: str) -> None:
    """Also what it imports relatively, and the ``__init__.py`` that ``import package.core`` runs."""
    plugin = tmp_path / "plugin.py"
    plugin.write_text("import package.core\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("SCALE = 1\n")
    (tmp_path / "package" / "core.py").write_text("from . import SCALE\nfrom .inner import MARGIN\n")
    (tmp_path / "package" / "inner.py").write_text("MARGIN = 1\n")
    before = plugin_digest_now(plugin)
    (tmp_path / edited).write_text((tmp_path / edited).read_text() + "MORE = 2\n")
    assert plugin_digest_now(plugin) != before


def test_two_helpers_of_one_name_are_refused(tmp_path: Path) -> None:
    for side in ("left", "right"):
        file = write_loss(tmp_path / side, f"outside_{side}", head="import twin_helper")
        (tmp_path / side / "twin_helper.py").write_text(f"SIDE = {side!r}\n")
        if side == "left":
            load_plugin_file(file)
    with pytest.raises(UsageError, match="two plug-ins each bring a module called twin_helper"):
        load_plugin_file(file)


def test_a_family_is_named_by_its_package_and_version() -> None:
    pytest.importorskip("pytorch_metric_learning")
    version = metadata.version("pytorch-metric-learning")
    assert losses.registry["pml:CircleLoss"].source == f"pytorch-metric-learning {version}"


def test_a_plugin_that_exits_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "leaver.py"
    file.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(RunError, match=r"leaver\.py fails on import: it calls sys\.exit\(0\)"):
        load_plugin_file(file)
