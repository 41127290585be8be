"""Digests that say whether an input, or a handler, is still the one that a result was made of."""

from __future__ import annotations

import copyreg
import functools
import pickle
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from strand.brief import in_full
from strand.errors import ConfigurationError, FeedError
from strand.handlers import Handler
from strand.handlers.base import SingleHandler
from strand.handlers.compiled.code_references import add_code, imported_in, referred_to
from strand.handlers.compiled.handlers import CompiledHandler, numba_module
from strand.handlers.native_handlers import NativeFunctions, NativeHandler
from strand.handlers.sets import part_with_sets
from strand.machine import strand_version
from strand.output.fingerprint import packed

#: Say all that they are.
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
#: Attributes that every class has, or that have no part in its behaviour.
_LEFT_OUT: Final = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__dict__",
    "__doc__", "__firstlineno__", "__module__", "__qualname__", "__slotnames__", "__static_attributes__", "__weakref__",
    "_abc_impl",
}  # fmt: skip
#: Cache of ``functools.singledispatch``.
_LEFT_OUT_OF_FUNCTIONS: Final = {"_clear_cache"}
#: Wrappers of a class's functions, and the attributes that hold them.
_HOLDERS: Final = (property, staticmethod, classmethod, functools.cached_property)
_HELD: Final = ("__func__", "func", "fget", "fset", "fdel")
#: Packages whose version stands for them: Python's has other code, and Strand's is in the digest.
_OURS: Final = {*sys.stdlib_module_names, "strand"}
_INSTALLED: Final = {"site-packages", "dist-packages"}


def add_written(digest: Any, written: Iterable[Callable[..., Any]]) -> None:
    """Adds functions and classes that a user wrote: what a run of them depends on, the same in each process.

    Raises ConfigurationError where that is nested too deep.
    """
    for function in written:
        own = function
        while isinstance(own, partial):
            own = own.func
        try:
            PythonDigest(digest, _package(getattr(own, "__module__", None))).add(function)
        except RecursionError:
            raise ConfigurationError(
                "handler",
                f"{own!r} refers to values that are nested too deep for a digest of them: let it make them in "
                "on_start, or read them from a file",
            ) from None


def _package(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


class PythonDigest:
    """Adds values to a digest: the code of functions, the methods and attributes of classes, the content of objects,
    and all that these name, however deep.

    ``package``: of the user's code. Values of other installed packages go by their name, the package's version and the
    bytes of their file. A value without visible content, such as an open file, gets a new digest on each run.
    """

    def __init__(self, digest: Any, package: str, seen: dict[int, tuple[int, Any]] | None = None) -> None:
        self._digest = digest
        self._package = package
        #: By id: the place in the order, and the value, so that no other one gets the id.
        self._seen: dict[int, tuple[int, Any]] = {} if seen is None else seen

    def add(self, value: Any) -> None:
        """Adds one value."""
        if type(value) in _PLAIN:
            self._text(type(value).__name__, repr(value))
        elif id(value) in self._seen:
            self._text("again", self._seen[id(value)][0])
        else:
            self._seen[id(value)] = len(self._seen), value
            self._add_new(value)

    def _text(self, *words: object) -> None:
        self._digest.update(repr(words).encode())

    def _add_new(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, ModuleType):
            if not self._add_installed(value.__name__, ""):
                self._add_attributes(vars(value), "module", leave_out=lambda name: name.startswith("__"))
        elif kind in (list, tuple):
            self._text(kind.__name__, len(value))
            for each in value:
                self.add(each)
        elif kind in (dict, MappingProxyType):
            self._text("dict", len(value))
            for name, each in list(value.items()):
                self.add(name)
                self.add(each)
        elif isinstance(value, set | frozenset):
            self._text("set", sorted(map(self._alone, value)))
            self.add((kind, getattr(value, "__dict__", None)))
        elif isinstance(value, np.ndarray | np.void) and not value.dtype.hasobject:
            self._add_array(np.asarray(value))
            self.add((kind, getattr(value, "__dict__", None)))
        elif isinstance(value, np.dtype):
            self._text("dtype", value)
        else:
            self._add_object(value, kind)

    def _add_array(self, array: Any) -> None:
        """Adds an array without the gaps between the fields of records, which nobody has set."""
        self._text("array", array.dtype, array.shape)
        self._digest.update((array if array.dtype.names is None else packed(array.reshape(-1))).tobytes())

    def _alone(self, value: Any) -> str:
        """The digest of one of several values without an order."""
        digest, before = blake2b(digest_size=16), len(self._seen)
        PythonDigest(digest, self._package, self._seen).add(value)
        while len(self._seen) > before:
            self._seen.popitem()
        return digest.hexdigest()

    def _add_function(self, function: Any) -> None:
        if self._add_installed(function.__module__, function.__qualname__):
            return
        self._text("function")
        add_code(self._digest, function.__code__)
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        self._add_attributes(vars(function), "attributes", leave_out=lambda name: name in _LEFT_OUT_OF_FUNCTIONS)
        for value in (*referred_to(function), *imported_in(function)):
            self.add(value)

    def _add_class(self, cls: type) -> None:
        if self._add_installed(cls.__module__, cls.__qualname__):
            return
        self.add(type(cls))
        self.add(cls.__bases__)
        self._add_attributes(vars(cls), "class", leave_out=lambda name: name in _LEFT_OUT)

    def _add_attributes(self, values: Any, what: str, *, leave_out: Callable[[str], bool]) -> None:
        names = sorted(name for name in values if not leave_out(name))
        self._text(what, names)
        for name in names:
            self.add(values[name])

    def _add_object(self, value: Any, kind: type) -> None:
        """Adds an object by the functions that it holds, or else as pickle would take it."""
        # Pickle takes those by name.
        if kind is functools._lru_cache_wrapper:
            self.add(value.__wrapped__)
            return
        if _package(kind.__module__) == "numba" and hasattr(value, "py_func"):
            self.add((value.py_func, getattr(value, "targetoptions", None)))
            return
        if isinstance(value, MethodType):
            self.add((value.__func__, value.__self__))
            return
        if isinstance(value, _HOLDERS):
            self._text(kind.__qualname__)
            self.add([getattr(value, name, None) for name in _HELD])
            return
        if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | None):
            self._add_name(value.__module__, value.__qualname__)
            return
        try:
            reduce = copyreg.dispatch_table.get(kind)
            taken: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:
            self._text(secrets.token_hex())  # it shows nothing of what it is
            return
        if isinstance(taken, str):
            self._add_named(value, kind, taken)
            return
        for place, part in enumerate(taken):
            # The last two are the items of a list or dict.
            self.add(list(part) if place in (3, 4) and part is not None else part)

    def _add_named(self, value: Any, kind: type, name: str) -> None:
        """Adds a value that pickle stores by name, if the name leads to the value. Of the user's own values, adds the
        content too."""
        module = pickle.whichmodule(value, name)  # type: ignore[attr-defined] # it has no stub
        try:
            found = functools.reduce(getattr, name.split("."), sys.modules.get(module))
        except AttributeError:
            found = None
        if found is not value:
            self._text(secrets.token_hex())
        elif not self._add_installed(module, name):
            self._text("named", name)
            self.add((kind, getattr(value, "__dict__", None)))

    def _add_installed(self, module: str | None, name: str) -> bool:
        """Adds a value of an installed package or an extension module by its name. Returns False, and adds nothing, for
        the user's own code."""
        top, file = _package(module), getattr(sys.modules.get(module or ""), "__file__", None)
        if file is not None and file.endswith(tuple(EXTENSION_SUFFIXES)):
            self._add_name(module, name)
            return True
        if top in ("", "__main__", self._package):
            return False
        if top not in _OURS and (file is None or not _INSTALLED & set(Path(file).parts)):
            return False
        self._add_name(module, name)
        return True

    def _add_name(self, module: str | None, name: str) -> None:
        """Adds a name, with the version of its package and the content of its file."""
        top, file = _package(module), getattr(sys.modules.get(module or ""), "__file__", None)
        version = getattr(sys.modules.get(top), "__version__", None)
        told = () if top in _OURS else (str(version), None if file is None else _bytes_of(file))
        self._text("name", module, name, *told)


@cache
def _bytes_of(file: str) -> str:
    """The digest of an installed file, which the process has imported."""
    return blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()


DIGEST_BYTES: Final = 16
#: Stamp that shows without reading that a file is the same: bytes, and the time of its last change in ns.
Stamp = tuple[int, int]


def stamp_of(path: Path) -> Stamp:
    """Raises FeedError for a file that is not there."""
    try:
        found = path.stat()
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror or error}", path=path) from error
    return found.st_size, found.st_mtime_ns


def file_digest(path: Path) -> str:
    """BLAKE2b of a file's bytes, 32 hexadecimal digits. Raises FeedError."""
    whole = blake2b(digest_size=DIGEST_BYTES)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                whole.update(block)
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror or error}", path=path) from error
    return whole.hexdigest()


def code_digest(handler: Handler, options: Mapping[str, Any]) -> str:
    """Digest, 32 hexadecimal digits, of everything that a result depends on beside the input and the set of parameters.
    It covers the handler's code with the functions, classes and values that the code names. It also covers earlier
    handlers and their options, the options of the replay and its feed, and Strand's version."""
    numba_module()
    from strand.handlers.compiled.loop import add_function

    whole = blake2b(digest_size=DIGEST_BYTES)
    swept, _ = part_with_sets(handler)
    words: list[object] = [strand_version(), [(name, _said(value)) for name, value in sorted(options.items())]]
    for called, part in handler.parts_as(handler.name):
        words += [called, type(part).__name__, part.state.descr, sorted(part.outputs.items()), part.timers, part.ends]
        words += [part.trades is not None]
        words += [_params(part, called == swept), None if part.origin is None else sorted(part.origin.options.items())]
        if isinstance(part, CompiledHandler):
            for function in part.written:
                add_function(whole, function, set())
        if not part.is_native:
            add_written(whole, part.written)
        if isinstance(part, NativeHandler):
            words += _library(part)
        words += part.shape.words
        add_written(whole, part.shape.written)
    whole.update(in_full(words).encode())
    return whole.hexdigest()


def _said(value: Any) -> object:
    """An option's value; where that names files, with the digests of what they hold."""
    texts = value if isinstance(value, list | tuple) else [value]
    files = [Path(text.removeprefix("@") if isinstance(text, str) else text) for text in texts if _names_a_file(text)]
    return value, [file_digest(path) for path in files]


def _names_a_file(value: object) -> bool:
    try:
        return isinstance(value, str | Path) and Path(str(value).removeprefix("@")).is_file()
    except OSError:  # a text that is too long for a name
        return False


def _params(part: SingleHandler, swept: bool) -> object:
    """Parameters of a part for its digest; for the swept part, only the values that all sets share."""
    if part.params is None:
        return None
    return part.params.dtype.descr, sorted(part.params.defaults.items()), _sorted(part.params.values), swept


def _sorted(values: Mapping[str, Mapping[str, Any]]) -> object:
    return sorted((symbol, sorted(row.items())) for symbol, row in values.items())


def _library(part: NativeHandler) -> list[object]:
    kept = getattr(part.function, "keep", None)
    first = kept[0] if isinstance(kept, tuple) and kept else None
    if not isinstance(first, NativeFunctions) or not isinstance(first.source, str | Path):
        return []
    return [part.name, file_digest(Path(first.source))]
