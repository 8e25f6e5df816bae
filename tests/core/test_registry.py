from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.built_in import built_in_names

from levelfield import losses, miners, samplers
from levelfield.core.deprecation import LevelfieldDeprecationWarning
from levelfield.core.errors import RunError, UsageError
from levelfield.core.registry import (
    Card,
    Registry,
    RegistryEntry,
    load_plugin_file,
    loaded_plugins,
    plugin_digest_now,
)


def make() -> Registry[Card, Any]:
    shapes: Registry[Card, Any] = Registry("shape", Card)

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


def test_unknown_names_and_options_raise_an_error_with_a_suggestion() -> None:
    shapes = make()
    with pytest.raises(UsageError, match=r'unknown shape "squre"; did you mean "square"\?'):
        shapes.create("squre")
    with pytest.raises(UsageError, match=r'"square" has no parameter "sid"; did you mean "side"\?'):
        shapes.create("square", sid=1)


def test_a_name_belongs_to_one_plugin() -> None:
    shapes = make()
    with pytest.raises(UsageError, match="already registered"):
        shapes.register("square")(lambda: None)


def test_a_cell_that_is_run_twice_may_register_again() -> None:
    shapes: Registry[Card, Any] = Registry("shape", Card)
    for _ in range(2):

        @shapes.register("circle")
        def circle() -> None:
            """Round."""

    assert shapes.names() == ["circle"]


def test_a_family_resolves_names_with_a_prefix() -> None:
    shapes = make()

    @shapes.family("polygon")
    def polygon(rest: str) -> RegistryEntry[Card]:
        return RegistryEntry(lambda: int(rest), Card(name=f"polygon:{rest}"))

    assert shapes.create("polygon:5") == 5
    assert "polygon:7" in shapes


def test_plugin_files_load_once_and_errors_name_the_problem(tmp_path: Path) -> None:
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


def write_loss(directory: Path, name: str, *, head: str = "", value: object = 1) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / f"{name}.py"
    file.write_text(LOSS.format(head, name, value))
    return file


def test_an_external_plugin_has_the_digest_of_its_file(tmp_path: Path) -> None:
    for name, value in (("outside_one", 1), ("outside_two", 2)):
        load_plugin_file(write_loss(tmp_path, name, value=value))
    first, other = losses.registry["outside_one"].source, losses.registry["outside_two"].source
    assert first and other and first != other
    assert losses.registry["triplet"].source is None
    assert loaded_plugins()["outside_one.py"] == first


def test_the_digest_is_that_of_the_code_that_runs(tmp_path: Path) -> None:
    """A file that is edited after its import keeps the digest of the imported text."""
    file = write_loss(tmp_path, "outside_edited")
    before = load_plugin_file(file)
    write_loss(tmp_path, "outside_edited", value=2)
    assert losses.registry["outside_edited"].source == before == load_plugin_file(file)


@pytest.mark.slow
def test_modules_beside_a_plugin_count_too(tmp_path: Path) -> None:
    """Editing a helper module, also one that another helper imports, changes the digest."""
    code = "import sys; from levelfield.core.registry import load_plugin_file as f; print(f(sys.argv[1]))"
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
    """Relative imports count too, and the ``__init__.py`` that ``import package.core`` runs."""
    plugin = tmp_path / "plugin.py"
    plugin.write_text("import package.core\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("SCALE = 1\n")
    (tmp_path / "package" / "core.py").write_text("from . import SCALE\nfrom .inner import MARGIN\n")
    (tmp_path / "package" / "inner.py").write_text("MARGIN = 1\n")
    before = plugin_digest_now(plugin)
    (tmp_path / edited).write_text((tmp_path / edited).read_text() + "MORE = 2\n")
    assert plugin_digest_now(plugin) != before


def test_two_helpers_with_the_same_name_are_an_error(tmp_path: Path) -> None:
    for side in ("left", "right"):
        file = write_loss(tmp_path / side, f"outside_{side}", head="import twin_helper")
        (tmp_path / side / "twin_helper.py").write_text(f"SIDE = {side!r}\n")
        if side == "left":
            load_plugin_file(file)
    with pytest.raises(UsageError, match="two plug-ins have a module called twin_helper"):
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


def test_an_unknown_card_field_raises_an_error_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r'loss "x" has no field "papr"; did you mean "paper"\?'):
        losses.register("x", papr="Yours, 2026")  # type: ignore[call-arg]  # the mistake


def test_an_old_option_name_is_accepted_with_a_warning() -> None:
    shapes: Registry[Card, Any] = Registry("shape", Card)

    @shapes.register("square", renamed={"edge": "side"})
    def square(*, side: float = 1.0) -> float:
        """Four equal sides."""
        return side

    message = 'shape "square": edge is now called side'
    with pytest.warns(LevelfieldDeprecationWarning, match=message):
        assert shapes.create("square", edge=2.0) == 2.0
    with pytest.warns(LevelfieldDeprecationWarning, match=message):
        assert shapes.check_options(shapes["square"], {"edge": 3}) == {"side": 3.0}


@pytest.mark.parametrize("package", [losses, miners, samplers], ids=lambda package: package.__name__)
def test_every_built_in_class_is_importable_from_its_package(package: Any) -> None:
    for name in built_in_names(package.registry):
        target = package.registry[name].target
        assert target.__name__ in package.__all__, f"{target.__name__} of {name}"
        assert target.__name__ in dir(package)
        assert getattr(package, target.__name__) is target


def imported_modules(code: str) -> set[str]:
    """Return the levelfield modules that a fresh process imports for ``code``."""
    script = f"{code}\nimport sys; print(*(name for name in sys.modules if name.startswith('levelfield')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.slow
def test_looking_up_one_plugin_does_not_import_the_others() -> None:
    imported = imported_modules("import levelfield as lf; lf.losses.registry['contrastive']")
    found = {name for name in imported if name.startswith("levelfield.losses.")}
    public = {name for name in found if not name.rpartition(".")[2].startswith("_")}
    assert public == {"levelfield.losses.contrastive"}

    imported = imported_modules("import levelfield.engine; levelfield.engine.registry['local']")
    assert "levelfield.engine.ray" not in imported


@pytest.mark.slow
def test_a_plugin_cannot_take_a_built_in_name_of_a_module_called_otherwise() -> None:
    """``map_at_r`` stands in metrics/retrieval.py, which is not imported by its name."""
    code = (
        "from levelfield import metrics\n"
        "from levelfield.core.errors import UsageError\n"
        "try:\n    metrics.register('map_at_r')(lambda hits: hits)\n"
        "except UsageError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "already registered by levelfield.metrics" in done.stdout


@pytest.mark.parametrize("name", ["", "my loss!", "pml:Foo", len])
def test_register_takes_one_valid_name(name: Any) -> None:
    with pytest.raises(UsageError, match=r"valid shape name|write @register"):
        Registry("shape", Card).register(name)
    with pytest.raises(UsageError, match="one name and keywords"):
        Registry("shape", Card).register("a", "b")  # type: ignore[call-arg]  # it is refused
    with pytest.raises(UsageError, match='has no field "name"'):
        Registry("shape", Card).register("a", name="b")
