"""Which code a plug-in is: the hash of its source text as it was when it was imported.

A plug-in's hash is part of the identity of every run that uses it. It is taken once, while the plug-in is
loaded: code that is edited afterwards is not the code that this process runs. Everything that a plug-in
file registers counts with the file itself and with the modules that it imports from its own folder.
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

from levelfield.errors import UsageError


@dataclass
class Source:
    """The code that some plug-ins come from; ``digest`` is empty while it is still being loaded."""

    name: str
    digest: str = ""


_loading: list[Source] = []  # the innermost last
_loaded: dict[str, Source] = {}
_hash_when_imported: dict[Path, bytes] = {}  # of helper modules: Python imports a module once
_plugin_folders: set[Path] = set()


@contextmanager
def loading(name: str) -> Iterator[Source]:
    """Everything registered inside belongs to one source, which the caller gives its digest."""
    source = Source(name)
    _loading.append(source)
    try:
        yield source
    finally:
        _loading.pop()
    _loaded[name] = source


def loaded() -> dict[str, str]:
    """The plug-in files and entry points loaded in this process: name to hash."""
    return {name: _loaded[name].digest for name in sorted(_loaded)}


def source_of(target: Callable[..., Any]) -> Source | None:
    """Where a plug-in that is being registered comes from; None if it is part of this package."""
    module = getattr(target, "__module__", None) or ""
    if module.partition(".")[0] == "levelfield":
        return None
    if _loading:
        return _loading[-1]
    return Source(module, _digest_of_target(target))  # registered by a script or in a prompt


def package_source(distribution: str) -> Source:
    """An installed package by name and version: what plug-ins of a family, such as ``pml:``, come from.

    Example:
        >>> package_source("numpy").digest.startswith("numpy ")
        True
    """
    try:
        return Source(distribution, f"{distribution} {metadata.version(distribution)}")
    except metadata.PackageNotFoundError:
        return Source(distribution, f"{distribution} (version unknown)")


def run_file(file: Path, module: Any) -> str:
    """Execute ``file`` as the code of ``module``; the hash of that very text and of its helpers."""
    folder = file.parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # so that a plug-in can import a module that lies beside it
    _plugin_folders.add(folder)
    data = file.read_bytes()
    exec(compile(data, str(file), "exec"), module.__dict__)
    helpers = {
        name: _hash_when_imported.setdefault(helper, _hash(helper))
        for name, helper in _helpers(file, data, folder).items()
    }
    return digest_of({".": data, **helpers})


def file_digest(file: Path) -> str:
    """What :func:`run_file` would return for ``file`` as it is now; nothing is executed."""
    data = file.read_bytes()
    helpers = {name: _hash(helper) for name, helper in _helpers(file, data, file.parent).items()}
    return digest_of({".": data, **helpers})


def plugin_texts(file: Path) -> dict[str, bytes]:
    """What :func:`file_digest` hashes: the file itself as ".", and its helpers by their path beside it."""
    data = file.read_bytes()
    helpers = _helpers(file, data, file.parent)
    return {".": data, **{name: helper.read_bytes() for name, helper in helpers.items()}}


def package_digest(module: str) -> str:
    """The hash of an entry point: every Python file of the package that ``module`` belongs to."""
    top = sys.modules[module.partition(".")[0]]
    files = [Path(top.__file__)] if top.__file__ else []
    for folder in getattr(top, "__path__", ()):
        files += sorted(Path(folder).rglob("*.py"))
    root = Path(top.__file__ or ".").parent
    return digest_of(
        {str(file.relative_to(root)): file.read_bytes() for file in files if file.suffix == ".py"}
    )


def digest_of(parts: dict[str, bytes]) -> str:
    """16 hex digits of some named texts.

    Example:
        >>> digest_of({"a": b"1"}) == digest_of({"a": b"2"})
        False
    """
    state = hashlib.sha256()
    for name in sorted(parts):
        state.update(f"{name}\n{len(parts[name])}\n".encode())
        state.update(parts[name])
    return state.hexdigest()[:16]


def _hash(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def _helpers(file: Path, data: bytes, folder: Path) -> dict[str, Path]:
    """The modules of ``folder`` that ``file`` imports, directly or through one another, by their name."""
    found: dict[str, Path] = {}
    texts = [("", data)]  # each with the package that it lies in
    while texts:
        package, text = texts.pop()
        for name in _imported_names(text, package):
            helper = _module_file(name, folder)
            if helper is None or helper == file or str(helper.relative_to(folder)) in found:
                continue
            found[str(helper.relative_to(folder))] = helper
            inside = name if helper.name == "__init__.py" else name.rpartition(".")[0]
            texts.append((inside, helper.read_bytes()))
    return found


def _imported_names(text: bytes, package: str) -> Iterator[str]:
    """The modules that ``text``, a module of ``package``, imports: ``import a.b`` runs ``a`` as well.

    Example:
        >>> list(_imported_names(b"import a.b", "")), list(_imported_names(b"from .c import d", "p"))
        (['a', 'a.b'], ['p', 'p.c', 'p', 'p.c', 'p.c.d'])
    """
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*filter(None, parents), *([node.module] if node.module else [])])
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
        for parts in (name.split(".") for name in names if name):
            yield from (".".join(parts[: count + 1]) for count in range(len(parts)))


def _module_file(name: str, folder: Path) -> Path | None:
    """The file in ``folder`` that ``import name`` gives, None if it gives another one."""
    path = folder.joinpath(*name.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if not file.is_file() or name.partition(".")[0] == "levelfield":
            continue
        imported = getattr(sys.modules.get(name), "__file__", None)
        if imported is None or Path(imported).resolve() == file.resolve():
            return file
        if any(Path(imported).is_relative_to(other) for other in _plugin_folders - {folder}):
            raise UsageError(
                f"two plug-ins each bring a module called {name} ({imported} and {file}), and Python imports "
                "only one of them; rename one"
            )
    return None


def _digest_of_target(target: Callable[..., Any]) -> str:
    """The hash of the file that a script's plug-in is in; of its own text if there is no file."""
    try:
        file = inspect.getsourcefile(target)
        if file is not None and Path(file).is_file():
            return digest_of({".": Path(file).read_bytes()})
        return digest_of({".": inspect.getsource(target).encode()})
    except (OSError, TypeError):  # typed into a prompt that keeps no text
        functions = [target, *vars(target).values()] if isinstance(target, type) else [target]
        codes = [f.__code__ for f in functions if isinstance(f, FunctionType)]
        return digest_of({str(n): _code_text(code) for n, code in enumerate(codes)})


def _code_text(code: CodeType) -> bytes:
    inner = [_code_text(c) if isinstance(c, CodeType) else repr(c).encode() for c in code.co_consts]
    return b"\n".join([code.co_code, repr(code.co_names).encode(), *inner])
