"""One registry for every kind of plug-in: losses, miners, samplers, datasets, trunks, methods, metrics.

A registry fills itself on first use: it imports the modules of its own package (one file per plug-in),
then the packages that declare the entry point ``levelfield.plugins``. Files of a user's own are loaded
with :func:`load_plugin_file`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from levelfield import sources
from levelfield.errors import RunError, UsageError, did_you_mean
from levelfield.options import call, validated
from levelfield.sources import Source, package_source
from levelfield.space import Space

__all__ = [
    "ENTRY_POINT_GROUP",
    "Card",
    "Entry",
    "Registry",
    "load_entry_points",
    "load_plugin_file",
    "loaded_entry_points",
    "loaded_plugins",
    "package_source",
    "plugin_digest_now",
]

ENTRY_POINT_GROUP = "levelfield.plugins"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a registry knows of a plug-in besides its code.

    ``summary`` defaults to the first line of the plug-in's docstring.
    """

    name: str
    summary: str = ""
    paper: str = ""
    year: int | None = None
    space: Space = field(default_factory=dict)


CardT = TypeVar("CardT", bound=Card)
Target = TypeVar("Target", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry(Generic[CardT]):
    """A registered plug-in: how to make one, and its card."""

    target: Callable[..., Any]
    card: CardT
    origin: Source | None = None

    @property
    def name(self) -> str:
        """The registered name."""
        return self.card.name

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The keyword arguments that ``target`` takes."""
        return inspect.signature(self.target).parameters

    @property
    def source(self) -> str | None:
        """Which code this is, as far as it is not part of this package; None if it is.

        The hash of a plug-in's file as it was when it was imported, or the name and version of the package
        that a family such as ``pml:`` takes it from. It is part of the identity of every run that uses the
        plug-in: editing your own loss makes new runs, not stale results.
        """
        return None if self.origin is None else self.origin.digest


class Registry(Generic[CardT]):
    """Named plug-ins of one kind.

    Example:
        >>> shapes = Registry("shape", Card)
        >>> @shapes.register("square")
        ... class Square:
        ...     "Four equal sides."
        >>> shapes["square"].card.summary
        'Four equal sides.'
        >>> shapes["sqare"]
        Traceback (most recent call last):
        ...
        levelfield.errors.UsageError: unknown shape "sqare"; did you mean "square"?
    """

    def __init__(
        self, kind: str, card: type[CardT], *, package: str | None = None, supplied: Collection[str] = ()
    ) -> None:
        self.kind = kind
        self._card = card
        self._supplied = supplied  # parameters that the program gives, not the user
        self._package = package
        self._entries: dict[str, Entry[CardT]] = {}
        self._families: dict[str, Callable[[str], Entry[CardT]]] = {}
        self._filled = package is None

    def register(self, name: str, **fields: Any) -> Callable[[Target], Target]:
        """Decorate a class or function to make it available as ``name``; ``fields`` fill its card."""

        def add(target: Target) -> Target:
            known = self._entries.get(name)
            if known is not None and not _same_origin(known.target, target):
                raise UsageError(
                    f'{self.kind} "{name}" is registered already by {_origin(known.target)}; '
                    f"give the one in {_origin(target)} another name"
                )
            summary = fields.pop("summary", None) or (inspect.getdoc(target) or "").split("\n")[0]
            card = self._card(name=name, summary=summary, **fields)
            self._entries[name] = Entry(target, card, sources.source_of(target))
            return target

        return add

    def family(self, prefix: str) -> Callable[[Callable[[str], Entry[CardT]]], Callable[[str], Entry[CardT]]]:
        """Decorate a resolver for names of the form ``prefix:NAME``, such as ``pml:CircleLoss``."""

        def add(resolve: Callable[[str], Entry[CardT]]) -> Callable[[str], Entry[CardT]]:
            self._families[prefix] = resolve
            return resolve

        return add

    def __getitem__(self, name: str) -> Entry[CardT]:
        """The entry called ``name``; UsageError with a suggestion if there is none."""
        self._fill()
        if name in self._entries:
            return self._entries[name]
        prefix, colon, rest = name.partition(":")
        if colon and prefix in self._families:
            return self._families[prefix](rest)
        families = [f"{prefix}:NAME" for prefix in self._families]
        raise UsageError(f'unknown {self.kind} "{name}"{did_you_mean(name, [*self._entries, *families])}')

    def __contains__(self, name: str) -> bool:
        """Whether ``name`` is registered, or belongs to a family."""
        self._fill()
        return name in self._entries or name.partition(":")[0] in self._families

    def names(self) -> list[str]:
        """All registered names, sorted."""
        self._fill()
        return sorted(self._entries)

    def create(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Make the plug-in called ``name``; options that it cannot take are refused."""
        entry = self[name]
        plugin = f'{self.kind} "{entry.name}"'
        return call(
            entry.target, *args, plugin=plugin, options=validated(entry.target, options, plugin=plugin)
        )

    def check_options(self, entry: Entry[CardT], options: Mapping[str, Any]) -> dict[str, Any]:
        """A user's options, checked by name and type, as the plug-in is to get them."""
        plugin = f'{self.kind} "{entry.name}"'
        return validated(entry.target, options, plugin=plugin, supplied=self._supplied)

    def _fill(self) -> None:
        if self._filled:
            return
        self._filled = True  # first, because the modules imported below may look names up
        package = importlib.import_module(str(self._package))
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        load_entry_points()


_entry_points_loaded = False
_entry_point_names: set[str] = set()


def load_entry_points() -> None:
    """Import every installed package that declares the entry point ``levelfield.plugins``, once."""
    global _entry_points_loaded  # noqa: PLW0603 - a process imports them once
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            name = f"{point.name} ({point.value})"
            _entry_point_names.add(name)
            with sources.loading(name) as source:
                point.load()
                source.digest = sources.package_digest(point.module)
        except (Exception, SystemExit) as error:
            raise RunError(
                f'plug-in "{point.name}" ({point.value}) cannot be imported: {_what_happened(error)}; '
                "mend or uninstall it"
            ) from error


def loaded_plugins() -> dict[str, str]:
    """Every plug-in file and entry point that this process has loaded: its name and its hash."""
    return sources.loaded()


def loaded_entry_points() -> dict[str, str]:
    """The entry points among :func:`loaded_plugins`."""
    return {name: digest for name, digest in sources.loaded().items() if name in _entry_point_names}


def plugin_digest_now(path: str | Path) -> str:
    """The hash that :func:`load_plugin_file` would give, were the file loaded now."""
    return sources.file_digest(Path(path).resolve())


def load_plugin_file(path: str | Path) -> str:
    """Run a user's Python file so that its ``@register`` decorators take effect; once per file.

    Returns:
        The hash of the file, and of the modules that it imports from its own folder, as they were when they
        were imported; see :mod:`levelfield.sources`.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"plug-in file {path} does not exist; check `plugins` in the experiment file")
    if file.suffix != ".py":
        raise UsageError(f"plug-in file {path} is not a Python file; it must end in .py")
    name = f"levelfield_plugin_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    known = sys.modules.get(name)
    if known is not None:
        return str(known.__dict__[_DIGEST])
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    try:
        with sources.loading(_shown_name(file)) as source:
            source.digest = sources.run_file(file, module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if isinstance(error, UsageError):
            raise
        raise RunError(f"plug-in file {path} fails on import: {_what_happened(error)}") from error
    module.__dict__[_DIGEST] = source.digest
    return source.digest


_DIGEST = "__levelfield_digest__"


def _shown_name(file: Path) -> str:
    """The file's name; with its folder's name if another plug-in file has the same one."""
    return file.name if file.name not in sources.loaded() else f"{file.parent.name}/{file.name}"


def _what_happened(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({error.code!r}) when it is imported"
    return f"{type(error).__name__}: {error}"


def _origin(target: Callable[..., Any]) -> str:
    return f"{target.__module__}.{target.__qualname__}"


def _same_origin(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """A cell that is run twice, or a file that is imported under two names, may register again."""
    if one.__qualname__ != other.__qualname__:
        return False
    return one.__module__ == other.__module__ or _file(one) == _file(other) is not None


def _file(target: Callable[..., Any]) -> str | None:
    try:
        return inspect.getsourcefile(target)
    except TypeError:  # built in, or made in a prompt
        return None
