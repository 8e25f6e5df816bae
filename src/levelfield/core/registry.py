"""Registry of plug-ins: losses, miners, samplers, datasets, trunks, methods, metrics, trackers.

A registry imports what is asked for. A built-in plug-in ``NAME`` usually stands in the module ``NAME`` of the
registry's package, and only that module is imported. Other names, and lists of all names, import the whole
package, then the installed packages that declare the entry point ``levelfield.plugins``.
:func:`load_plugin_file` loads a user's own file.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

from levelfield.core import sources
from levelfield.core.deprecation import renamed_option
from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.core.options import call_plugin, validate_options
from levelfield.core.sources import CodeSource, find_source, package_source
from levelfield.core.space import Space

__all__ = [
    "ENTRY_POINT_GROUP",
    "Card",
    "Registry",
    "RegistryEntry",
    "load_entry_points",
    "load_plugin_file",
    "loaded_entry_points",
    "loaded_plugins",
    "package_source",
    "plugin_attribute",
    "plugin_digest_now",
]

ENTRY_POINT_GROUP = "levelfield.plugins"


@dataclass(frozen=True, kw_only=True)
class Card:
    """Facts about a plug-in besides its code.

    Attributes:
        name: Registered name.
        summary: One line. Defaults to the first line of the plug-in's docstring.
        paper: Title of the paper that introduced it.
        year: Year of the paper.
        space: Hyperparameters to search, with their ranges.
        renamed: Old option names that are still accepted, each with its new name.
    """

    name: str = ""
    summary: str = ""
    paper: str = ""
    year: int | None = None
    space: Space = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


CardT = TypeVar("CardT", bound=Card)
CardFields = ParamSpec("CardFields")
Target = TypeVar("Target", bound=Callable[..., Any])


@dataclass(frozen=True)
class RegistryEntry(Generic[CardT]):
    """Registered plug-in: its class or function, and its card."""

    target: Callable[..., Any]
    card: CardT
    origin: CodeSource | None = None

    @property
    def name(self) -> str:
        """Registered name."""
        return self.card.name

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Keyword arguments of ``target``."""
        return inspect.signature(self.target).parameters

    @property
    def source(self) -> str | None:
        """Digest of the plug-in's code; None for plug-ins of this package.

        It covers the plug-in's file as it was when it was imported, or names the package and version that a
        family such as ``pml:`` takes it from. It is part of the identity of every run that uses the plug-in:
        after you edit your own loss, its runs are computed again.
        """
        return None if self.origin is None else self.origin.digest


class Registry(Generic[CardT, CardFields]):
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
        levelfield.core.errors.UsageError: unknown shape "sqare"; did you mean "square"?
    """

    def __init__(
        self,
        kind: str,
        card: Callable[CardFields, CardT],
        *,
        package: str | None = None,
        supplied: Collection[str] = (),
    ) -> None:
        """Make an empty registry.

        Args:
            kind: Noun for error messages, such as "loss".
            card: Class of the cards; a dataclass that extends :class:`Card`.
            package: Package whose modules register the built-in plug-ins.
            supplied: Parameters that levelfield passes to a plug-in, so that users cannot set them.
        """
        self.kind = kind
        self._card = card
        self._supplied = supplied
        self._package = package
        self._entries: dict[str, RegistryEntry[CardT]] = {}
        self._families: dict[str, Callable[[str], RegistryEntry[CardT]]] = {}
        self._family_names: dict[str, Callable[[str], bool]] = {}
        self._filled = package is None
        self._has_built_ins = package is None

    def register(
        self, name: str, /, *extra: CardFields.args, **card_fields: CardFields.kwargs
    ) -> Callable[[Target], Target]:
        """Decorate a class or function to make it available as ``name``; keywords fill its card."""
        if not isinstance(name, str) or extra:
            raise UsageError(
                f'register takes one name and keywords: write @register("my_{self.kind.split()[-1]}")'
            )
        if not re.fullmatch(r"\w[\w.+-]*", name):
            raise UsageError(
                f"{name!r} is not a valid {self.kind} name; use letters, digits, _ - . + and no spaces"
            )
        # the card is a dataclass, but typed as its constructor
        known = [each.name for each in fields(self._card) if each.name != "name"]  # type: ignore[arg-type]
        for given in card_fields:
            if given not in known:
                raise UsageError(
                    f'the card of {self.kind} "{name}" has no field "{given}"{did_you_mean(given, known)}'
                )

        def add(target: Target) -> Target:
            if _origin_package(target) != "levelfield":
                self._import_built_ins()  # so that a plug-in cannot take a built-in name
            taken = self._entries.get(name)
            if taken is not None and not _same_origin(taken.target, target):
                raise UsageError(
                    f'{self.kind} "{name}" is already registered by {_origin(taken.target)}; '
                    f"give the one in {_origin(target)} another name"
                )
            given: dict[str, Any] = {"summary": (inspect.getdoc(target) or "").split("\n")[0], **card_fields}
            make_card: Callable[..., CardT] = self._card
            self._entries[name] = RegistryEntry(target, make_card(name=name, **given), find_source(target))
            return target

        return add

    def family(
        self, prefix: str, *, knows: Callable[[str], bool] | None = None
    ) -> Callable[[Callable[[str], RegistryEntry[CardT]]], Callable[[str], RegistryEntry[CardT]]]:
        """Decorate a resolver for names of the form ``prefix:NAME``, such as ``pml:CircleLoss``.

        Args:
            prefix: Name of the family.
            knows: Function that returns True for the names of the family, without the network; a user who
                forgot the prefix is then told about it.
        """

        def add(resolve: Callable[[str], RegistryEntry[CardT]]) -> Callable[[str], RegistryEntry[CardT]]:
            self._families[prefix] = resolve
            if knows is not None:
                self._family_names[prefix] = knows
            return resolve

        return add

    def __getitem__(self, name: str) -> RegistryEntry[CardT]:
        """Return the entry called ``name``; raise UsageError with a suggestion if there is none."""
        entry = self._find(name)
        if entry is not None:
            return entry
        families = [f"{prefix}:NAME" for prefix in self._families]
        for prefix, knows in self._family_names.items():
            if ":" not in name and knows(name):
                raise UsageError(f'unknown {self.kind} "{name}"; did you mean "{prefix}:{name}"?')
        raise UsageError(f'unknown {self.kind} "{name}"{did_you_mean(name, [*self._entries, *families])}')

    def __contains__(self, name: str) -> bool:
        """Return whether ``name`` is registered, or belongs to a family."""
        return self._load(name)

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        self._fill()
        return sorted(self._entries)

    def create(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Make the plug-in called ``name``; raise UsageError for options that it does not take."""
        entry = self[name]
        plugin = f'{self.kind} "{entry.name}"'
        options = _with_new_names(entry, options, plugin=plugin)
        return call_plugin(
            entry.target, *args, plugin=plugin, options=validate_options(entry.target, options, plugin=plugin)
        )

    def is_built_in(self, name: str) -> bool:
        """Return False for a plug-in that is not part of this package.

        An unknown name counts as built in: looking it up runs nothing and ends in an error.
        """
        self._load(name)
        entry = self._entries.get(name)
        return entry is None or entry.origin is None

    def find_target(self, target: Callable[..., Any]) -> RegistryEntry[CardT] | None:
        """Return the entry of a registered class or function; None if it is not registered."""
        return next((entry for entry in self._entries.values() if entry.target is target), None)

    def load_file(self, path: str | Path) -> list[RegistryEntry[CardT]]:
        """Load a plug-in file and return the entries that it adds to this registry, by name."""
        load_plugin_file(path)
        module = _plugin_module_name(Path(path).resolve())
        return [entry for _, entry in sorted(self._entries.items()) if entry.target.__module__ == module]

    def check_options(self, entry: RegistryEntry[CardT], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a user's options, checked by name and type, in the form that the plug-in takes."""
        plugin = f'{self.kind} "{entry.name}"'
        options = _with_new_names(entry, options, plugin=plugin)
        return validate_options(entry.target, options, plugin=plugin, supplied=self._supplied)

    def _find(self, name: str) -> RegistryEntry[CardT] | None:
        """Return the entry called ``name``, importing no more than needed; None if there is none."""
        self._load(name)
        prefix, colon, rest = name.partition(":")
        if name in self._entries:
            return self._entries[name]
        return self._families[prefix](rest) if colon and prefix in self._families else None

    def _load(self, name: str) -> bool:
        """Import the module that registers ``name``; return whether the name is known then."""
        prefix, colon, _ = name.partition(":")

        def is_known() -> bool:
            return name in self._entries or (bool(colon) and prefix in self._families)

        if not is_known():
            self._import_built_in(prefix)
        if not is_known():
            self._fill()
        return is_known()

    def _import_built_in(self, name: str) -> None:
        """Import the built-in module that has the name of the plug-in, if there is one."""
        if self._package is not None and not self._filled and name.isidentifier():
            package = importlib.import_module(self._package)
            if name in {module.name for module in pkgutil.iter_modules(package.__path__)}:
                importlib.import_module(f"{self._package}.{name}")

    def _fill(self) -> None:
        """Import every built-in plug-in and every installed entry point, once."""
        if self._filled:
            return
        self._filled = True  # first: the modules imported below may look up names
        self._import_built_ins()
        load_entry_points()

    def _import_built_ins(self) -> None:
        """Import every module of our package."""
        if self._package is not None and not self._has_built_ins:
            self._has_built_ins = True  # first, for the same reason
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")


def _with_new_names(entry: RegistryEntry[Any], options: Mapping[str, Any], *, plugin: str) -> dict[str, Any]:
    """Return the options with old names replaced by new ones, and warn about each."""
    renamed = entry.card.renamed
    for old, new in renamed.items():
        if old in options and new in options:
            raise UsageError(f"{plugin}: {old} is the old name of {new}; give one of them")
    return {
        renamed_option(name, renamed[name], of=plugin) if name in renamed else name: value
        for name, value in options.items()
    }


_entry_points_loaded = False
_entry_point_names: set[str] = set()


def load_entry_points() -> None:
    """Import every installed package that declares the entry point ``levelfield.plugins``, once."""
    global _entry_points_loaded  # noqa: PLW0603 - entry points are imported once per process
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            name = f"{point.name} ({point.value})"
            _entry_point_names.add(name)
            with sources.record_source(name) as source:
                point.load()
                source.digest = sources.package_digest(point.module)
        except (Exception, SystemExit) as error:
            raise RunError(
                f'plug-in "{point.name}" ({point.value}) cannot be imported: {_describe_error(error)}; '
                "fix or uninstall it"
            ) from error


def loaded_plugins() -> dict[str, str]:
    """Return all plug-in files and entry points that this process has loaded, as name to digest."""
    return sources.loaded_sources()


def loaded_entry_points() -> dict[str, str]:
    """Return the entry points among :func:`loaded_plugins`."""
    return {name: digest for name, digest in sources.loaded_sources().items() if name in _entry_point_names}


def plugin_digest_now(path: str | Path) -> str:
    """Return the digest that :func:`load_plugin_file` would return now, without loading the file."""
    return sources.file_digest(Path(path).resolve())


def load_plugin_file(path: str | Path) -> str:
    """Execute a user's Python file, once per process, so that its ``@register`` decorators take effect.

    Returns:
        Digest of the file, of the modules that it imports from its own directory, as they were when they
        were imported, and of the data files that it declares; see :mod:`levelfield.core.sources`.
    """
    try:
        file = Path(path).resolve()
        found = file.is_file()
    except (OSError, ValueError) as error:  # a name that is too long, a NUL
        raise UsageError(f"plug-in file {str(path)[:80]} cannot be opened: {error}; correct it") from error
    if not found:
        raise UsageError(f"plug-in file {path} does not exist; check `plugins` in the experiment file")
    if file.suffix != ".py":
        raise UsageError(f"plug-in file {path} is not a Python file; it must end in .py")
    name = _plugin_module_name(file)
    known = sys.modules.get(name)
    if known is not None:
        return str(known.__dict__[_DIGEST])
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    try:
        with sources.record_source(_shown_name(file)) as source:
            source.digest = sources.run_file(file, module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if isinstance(error, UsageError):
            raise
        raise RunError(f"plug-in file {path} fails on import: {_describe_error(error)}; fix it") from error
    module.__dict__[_DIGEST] = source.digest
    return source.digest


def plugin_attribute(path: str | Path, name: str) -> Any:
    """Return the object called ``name`` of a plug-in file that is loaded; raise UsageError if it has none."""
    module = sys.modules[_plugin_module_name(Path(path).resolve())]
    if not hasattr(module, name):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise UsageError(f'{path} has no "{name}"{did_you_mean(name, known)}')
    return getattr(module, name)


_DIGEST = "__levelfield_digest__"


def _plugin_module_name(file: Path) -> str:
    return f"levelfield_plugin_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"


def _shown_name(file: Path) -> str:
    """Return the file's name, with its directory if another plug-in file has the same name."""
    return file.name if file.name not in sources.loaded_sources() else f"{file.parent.name}/{file.name}"


def _describe_error(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({error.code!r}) when it is imported"
    return f"{type(error).__name__}: {error}"


def _origin_package(target: Callable[..., Any]) -> str:
    return (getattr(target, "__module__", None) or "").partition(".")[0]


def _origin(target: Callable[..., Any]) -> str:
    return f"{target.__module__}.{target.__qualname__}"


def _same_origin(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Return whether two targets are the same code: a cell run twice, or a file imported under two names."""
    if one.__qualname__ != other.__qualname__:
        return False
    return one.__module__ == other.__module__ or _file(one) == _file(other) is not None


def _file(target: Callable[..., Any]) -> Path | None:
    try:
        file = inspect.getsourcefile(target)
    except TypeError:  # built in, or defined in a Python prompt
        return None
    return None if file is None else Path(file).resolve()
