"""Digests of plug-in code: the source text as it was when it was imported.

The digest of a plug-in is part of the identity of every run that uses it. It is computed once, when the
plug-in is loaded: later edits do not change the code that this process runs. The digest of a plug-in file
covers the file, the modules that it imports from its own directory, and the data files that it declares in
``LEVELFIELD_FILES``. It does not cover modules from elsewhere, modules whose name is computed, text that is
executed, and files that are read without being declared.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from levelfield.core.errors import UsageError
from levelfield.core.files import cache_directory

DATA_FILES = "LEVELFIELD_FILES"  # list of file names, in a plug-in file or in a module beside it


@dataclass
class CodeSource:
    """Origin of one or more plug-ins; ``digest`` is empty until the code is loaded."""

    name: str
    digest: str = ""


_loading: list[CodeSource] = []  # stack, innermost last
_loaded: dict[str, CodeSource] = {}
_hash_when_imported: dict[Path, bytes] = {}  # helper modules; Python imports each module once
_plugin_directories: set[Path] = set()


@contextmanager
def record_source(name: str) -> Iterator[CodeSource]:
    """Attribute everything that is registered inside the block to one source; the caller sets its digest."""
    source = CodeSource(name)
    _loading.append(source)
    try:
        yield source
    finally:
        _loading.pop()
    _loaded[name] = source


def loaded_sources() -> dict[str, str]:
    """Return the plug-in files and entry points loaded in this process, as name to digest."""
    return {name: _loaded[name].digest for name in sorted(_loaded)}


def find_source(target: Callable[..., Any]) -> CodeSource | None:
    """Return the source of a plug-in that is being registered; None if it is part of this package."""
    module = getattr(target, "__module__", None) or ""
    if module.partition(".")[0] == "levelfield":
        return None
    if _loading:
        return _loading[-1]
    return CodeSource(module, _digest_of_target(target))  # registered by a script or in a Python prompt


def package_source(distribution: str) -> CodeSource:
    """Return the source of plug-ins that come from an installed package, such as ``pml:NAME``.

    Its digest is the name and version of the package.

    Example:
        >>> package_source("numpy").digest.startswith("numpy ")
        True
    """
    try:
        return CodeSource(distribution, f"{distribution} {metadata.version(distribution)}")
    except metadata.PackageNotFoundError:
        return CodeSource(distribution, f"{distribution} (version unknown)")


def run_file(file: Path, module: Any) -> str:
    """Execute ``file`` as the code of ``module``; return the digest of the executed text and its helpers."""
    directory = file.parent
    if str(directory) not in sys.path:  # so that a plug-in can import modules of its own directory
        # A copy that was sent to this machine holds nothing else, and goes before the directory that it was
        # copied from, which may be the working directory.
        sys.path.insert(0 if _is_copy(directory) else len(sys.path), str(directory))
    _plugin_directories.add(directory)
    data = file.read_bytes()
    exec(compile(data, str(file), "exec"), module.__dict__)
    found = _helpers(file, data, directory)
    helpers = {name: _hash_when_imported.setdefault(helper, _hash(helper)) for name, helper in found.items()}
    declared = {name: _hash(path) for name, path in _data_files(file, data, found).items()}
    return compute_digest({".": data, **helpers, **declared})


def file_digest(file: Path) -> str:
    """Return the digest that :func:`run_file` would return now, without executing ``file``."""
    data = file.read_bytes()
    helpers = _helpers(file, data, file.parent)
    parts = helpers | _data_files(file, data, helpers)
    return compute_digest({".": data, **{name: _hash(part) for name, part in parts.items()}})


def read_plugin_files(file: Path) -> dict[str, bytes]:
    """Return what :func:`file_digest` hashes: the file as ".", helpers and data files by relative path."""
    data = file.read_bytes()
    helpers = _helpers(file, data, file.parent)
    parts = helpers | _data_files(file, data, helpers)
    return {".": data, **{name: part.read_bytes() for name, part in parts.items()}}


def package_digest(module: str) -> str:
    """Return the digest of an entry point: all Python files of the package that ``module`` belongs to."""
    top = sys.modules[module.partition(".")[0]]
    files = [Path(top.__file__)] if top.__file__ else []
    for directory in getattr(top, "__path__", ()):
        files += sorted(Path(directory).rglob("*.py"))
    root = Path(top.__file__ or ".").parent
    return compute_digest(
        {str(file.relative_to(root)): file.read_bytes() for file in files if file.suffix == ".py"}
    )


def compute_digest(parts: dict[str, bytes]) -> str:
    """Return the digest of some named texts: 16 hex digits.

    Example:
        >>> compute_digest({"a": b"1"}) == compute_digest({"a": b"2"})
        False
    """
    state = hashlib.sha256()
    for name in sorted(parts):
        state.update(f"{name}\n{len(parts[name])}\n".encode())
        state.update(parts[name])
    return state.hexdigest()[:16]


def _is_copy(directory: Path) -> bool:
    """Return True if ``directory`` holds the copy of a plug-in that an engine sent to this machine."""
    return directory.resolve().parent == (cache_directory() / "plugins").resolve()


def _data_files(file: Path, data: bytes, helpers: dict[str, Path]) -> dict[str, Path]:
    """Return the data files that a plug-in and its helpers declare, by path relative to the plug-in."""
    found: dict[str, Path] = {}
    for text in (data, *(helper.read_bytes() for helper in helpers.values())):
        for name in _declared_names(file, text):
            path = file.parent / name
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise UsageError(
                    f"{DATA_FILES} of the plug-in {file} names {name}; name files in the plug-in's directory "
                    "only"
                )
            if not path.is_file():
                raise UsageError(
                    f"{path} does not exist; the plug-in {file} declares it in {DATA_FILES}: restore it, or "
                    "take it from the list"
                )
            if name not in helpers:
                found[name] = path
    return found


def _declared_names(file: Path, text: bytes) -> list[str]:
    """Return the list that ``text`` assigns to ``LEVELFIELD_FILES``, without executing it.

    Example:
        >>> _declared_names(Path("plugin.py"), b"LEVELFIELD_FILES = ['table.csv']")
        ['table.csv']
    """
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if not any(isinstance(target, ast.Name) and target.id == DATA_FILES for target in targets):
            continue
        assert isinstance(node, ast.Assign)
        try:
            names = ast.literal_eval(node.value)
        except ValueError:
            names = None
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise UsageError(
                f"{DATA_FILES} of the plug-in {file} must be a plain list of file names, such as "
                f'{DATA_FILES} = ["table.csv"]; it is read without running the file'
            )
        return [Path(name).as_posix() for name in names]
    return []


def _hash(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def _helpers(file: Path, data: bytes, directory: Path) -> dict[str, Path]:
    """Return the modules of ``directory`` that ``file`` imports, directly or indirectly, by relative path."""
    found: dict[str, Path] = {}
    texts = [("", data)]  # each with its package
    while texts:
        package, text = texts.pop()
        for name in _imported_names(text, package):
            helper = _module_file(name, directory)
            if helper is None or helper == file or str(helper.relative_to(directory)) in found:
                continue
            found[str(helper.relative_to(directory))] = helper
            inside = name if helper.name == "__init__.py" else name.rpartition(".")[0]
            texts.append((inside, helper.read_bytes()))
    return found


def _imported_names(text: bytes, package: str) -> Iterator[str]:
    """Yield the modules that ``text``, a module of ``package``, imports; ``import a.b`` also yields ``a``.

    Example:
        >>> list(_imported_names(b"import a.b", "")), list(_imported_names(b"from .c import d", "p"))
        (['a', 'a.b'], ['p', 'p.c', 'p', 'p.c', 'p.c.d'])
        >>> list(_imported_names(b"importlib.import_module('a')", ""))
        ['a']
    """
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Call):
            names = [_imported_by_call(node, package)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*filter(None, parents), *([node.module] if node.module else [])])
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
        for parts in (name.split(".") for name in names if name):
            yield from (".".join(parts[: count + 1]) for count in range(len(parts)))


def _imported_by_call(call: ast.Call, package: str) -> str:
    """Return the module of ``import_module("name")`` and ``__import__("name")``; "" for other calls."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "name")]
    if function not in ("import_module", "__import__") or not given or not isinstance(given[0], ast.Constant):
        return ""
    name = str(given[0].value)
    level = len(name) - len(name.lstrip("."))
    parents = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
    return ".".join([*filter(None, parents), *filter(None, [name.lstrip(".")])])


def _module_file(name: str, directory: Path) -> Path | None:
    """Return the file in ``directory`` that ``import name`` imports; None if it imports another file."""
    path = directory.joinpath(*name.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if not file.is_file() or name.partition(".")[0] == "levelfield":
            continue
        imported = getattr(sys.modules.get(name), "__file__", None)
        if imported is None or Path(imported).resolve() == file.resolve():
            return file
        if any(Path(imported).is_relative_to(other) for other in _plugin_directories - {directory}):
            raise UsageError(
                f"two plug-ins have a module called {name} ({imported} and {file}), but Python can import "
                "only one of them; rename one"
            )
    return None


def _digest_of_target(target: Callable[..., Any]) -> str:
    """Return the digest of the file that defines ``target``, or of its own text if it has none."""
    try:
        file = inspect.getsourcefile(target)
        if file is not None and Path(file).is_file():
            return compute_digest({".": Path(file).read_bytes()})
        return compute_digest({".": inspect.getsource(target).encode()})
    except (OSError, TypeError):  # defined in a Python prompt that keeps no source text
        functions = [target, *vars(target).values()] if isinstance(target, type) else [target]
        codes = [f.__code__ for f in functions if isinstance(f, FunctionType)]
        return compute_digest({str(n): _code_text(code) for n, code in enumerate(codes)})


def _code_text(code: CodeType) -> bytes:
    inner = [_code_text(c) if isinstance(c, CodeType) else repr(c).encode() for c in code.co_consts]
    return b"\n".join([code.co_code, repr(code.co_names).encode(), *inner])
