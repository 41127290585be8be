"""Options: the one declaration of each, what they take, and the refusal of names that are none.

An option is a field of a frozen dataclass, made by ``option()``: its text, what it takes and its default. The class's
``__post_init__`` reads all fields by ``read_options``; errors have the field's name. The documentation of the class,
configuration files and the command line are made of the same declaration.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

from strand.dicts import FrozenDict
from strand.errors import ConfigurationError, UnknownOptionError
from strand.spans import span_ns, span_text
from strand.validate import MAXIMUM, Faults, did_you_mean, is_between, one_of, path, shown, whole, yes_or_no

__all__ = [
    "ByName",
    "Choice",
    "File",
    "Flag",
    "Kind",
    "Number",
    "Option",
    "Span",
    "Text",
    "Whole",
    "check_apart",
    "named_fields",
    "named_options",
    "option",
    "options_in",
    "options_of",
    "read_options",
    "refuse_unknown",
]

#: The key of an option in the metadata of its field.
_KEY: Final = "strand.option"
#: Letters of a line of a docstring.
_WIDTH: Final = 116

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=type[Any])


class Kind:
    """Base of what options take; by itself anything, which is checked where the option is used.

    Attributes:
        metavar: What stands for a value on the command line.
        takes_spans: Whether values are spans of time, which a file has as text.
    """

    metavar: str = "VALUE"
    takes_spans: ClassVar[bool] = False

    @property
    def range(self) -> str:
        """The values, in words: ``"1 to 1,024"``. Empty if the option's text says it."""
        return ""

    @property
    def bounds(self) -> str:
        """The values as a command's help has them: ``"1<=x<=1024"``. Empty if they are no numbers alone."""
        return ""

    def read(self, field: str, value: Any) -> Any:
        """Returns the value that an option was given, in the form that is kept. Raises ConfigurationError, of the field
        or a part of it."""
        del field
        return value

    def parse(self, text: str) -> Any:
        """Returns the value of a text of the command line; the text itself if it is none, which ``read`` refuses."""
        return text

    def plain(self, value: Any) -> Any:
        """Returns a kept value as a file has it."""
        return value


def _number(text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class Whole(Kind):
    """Whole numbers from ``least`` to ``most``, or the ``word``."""

    least: int = 0
    most: int = MAXIMUM
    word: str | None = None
    metavar: str = "N"

    @property
    def range(self) -> str:
        numbers = f"at least {self.least:,}" if self.most == MAXIMUM else f"{self.least:,} to {self.most:,}"
        return numbers if self.word is None else f"{numbers}, or {self.word}"

    @property
    def bounds(self) -> str:
        if self.word is not None:
            return ""
        return f"x>={self.least}" if self.most == MAXIMUM else f"{self.least}<=x<={self.most}"

    def read(self, field: str, value: Any) -> Any:
        if self.word is None or not isinstance(value, str):
            return whole(field, value, self.least, self.most)
        if value != self.word:
            raise ConfigurationError(field, f"{shown(value)} is neither a whole number nor {self.word!r}")
        return value

    def parse(self, text: str) -> Any:
        return _number(text, int)


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """Numbers from ``least``, or ``above`` it, to ``most``, in a ``unit``."""

    least: float
    most: float
    unit: str = ""
    above: bool = False
    metavar: str = "NUMBER"

    @property
    def range(self) -> str:
        least = f"above {self.least:,g} and up to" if self.above else f"{self.least:,g} to"
        return f"{least} {self.most:,.12g}{f' {self.unit}' if self.unit else ''}"

    @property
    def bounds(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.least:g}{'<' if self.above else '<='}x<={self.most:.12g}{unit}"

    def read(self, field: str, value: Any) -> float:
        if not is_between(value, self.least, self.most) or (self.above and value == self.least):
            values = self.range if self.above else f"from {self.range}"
            raise ConfigurationError(field, f"{shown(value)} is not a number {values}")
        return float(value)

    def parse(self, text: str) -> Any:
        return _number(text, float)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of some words."""

    words: tuple[str, ...]
    metavar: str = "WORD"

    @property
    def range(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, field: str, value: Any) -> str:
        return self.words[one_of(field, value, self.words)]


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """Text or another value that is checked where the option is used."""

    metavar: str = "TEXT"


@dataclass(frozen=True, slots=True)
class File(Kind):
    """The path of a file, which is checked where it is opened."""

    metavar: str = "PATH"


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """Yes or no. ``takes_none``: None is no."""

    takes_none: bool = False

    def read(self, field: str, value: Any) -> bool:
        return False if value is None and self.takes_none else yes_or_no(field, value)


@dataclass(frozen=True, slots=True)
class Span(Kind):
    """A span of time, kept in ns."""

    metavar: str = "SPAN"
    takes_spans: ClassVar[bool] = True

    @property
    def range(self) -> str:
        return "a span such as 250us or 30s"

    def read(self, field: str, value: Any) -> int:
        return span_ns(field, value)

    def plain(self, value: Any) -> Any:
        return span_text(value)


@dataclass(frozen=True, slots=True)
class ByName(Kind):
    """Values ``each`` by name. ``name``: returns a name as it is kept, or raises ConfigurationError of the field."""

    each: Kind
    name: Callable[[str, Any], str]
    metavar: str = "NAME=VALUE"

    @property
    def takes_spans(self) -> bool:  # type: ignore[override]
        return self.each.takes_spans

    @property
    def range(self) -> str:
        return self.each.range

    def read(self, field: str, value: Any) -> FrozenDict[str, Any]:
        if not isinstance(value, Mapping):
            raise ConfigurationError(field, f"{type(value).__name__} is not a dict of values by name")
        faults, found = Faults(), {}
        for name, one in value.items():
            with faults.kept():
                found[self.name(path(field, name), name)] = self.each.read(path(field, name), one)
        faults.end()
        return FrozenDict(found)

    def plain(self, value: Any) -> dict[str, Any]:
        return {name: self.each.plain(one) for name, one in value.items()}


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of an option.

    Attributes:
        name: The field's name.
        default: The value where none is given.
        kind: What it takes.
        text: The option in one sentence.
        unset: What None does, where it may be given.
        more: Further sentences for the documentation.
        flag: The name of the command's option, ``--min-workers``; empty if the command has none.
    """

    name: str
    default: Any
    kind: Kind
    text: str
    unset: str = ""
    more: str = ""
    flag: str = ""

    @property
    def summary(self) -> str:
        """The text with the values that there are."""
        values = self.kind.range
        return f"{self.text} {values[0].upper()}{values[1:]}." if values else self.text

    def documentation(self, unset: str = "None") -> str:
        """All that is known of the option. ``unset``: what stands for no value."""
        without = f"{unset}: {self.unset}." if self.unset else ""
        return " ".join(part for part in (self.summary, without, self.more) if part)

    @property
    def help(self) -> str:
        """The text of a command's help."""
        bounds = self.kind.bounds
        text = self.text if bounds or isinstance(self.kind, Choice) else self.summary
        if isinstance(self.kind, ByName):
            text += " Repeatable."
        default = self.unset if self.default is None or self.default is False or self.default == () else self.default
        if isinstance(default, float):
            default = f"{default:g}"
        elif isinstance(default, Mapping):
            default = ", ".join(f"{name}={value}" for name, value in default.items())
        notes = [f"default: {default}"] if default not in ("", MISSING) else []
        notes += [bounds] if bounds else []
        return (f"{text} [{'; '.join(notes)}]" if notes else text).replace("``", "")

    def plain(self, value: Any) -> Any:
        """Returns a kept value as a file has it."""
        return None if value is None else self.kind.plain(value)

    def read(self, value: Any) -> Any:
        """Returns what is kept of a value that was given. Raises ConfigurationError, of the option or a part of it."""
        if value is None and self.unset:
            return None
        try:
            return self.kind.read(self.name, value)
        except ConfigurationError as error:
            if self.unset and error.field == self.name and not error.others:
                raise ConfigurationError(self.name, f"{error.reason}; None: {self.unset}") from None
            raise


def option(default: Any, kind: Kind, text: str, *, unset: str = "", more: str = "", flag: str | None = "") -> Any:
    """Returns the field of an option: see ``Option``. ``flag``: None makes it of the field's name."""
    return field(default=default, metadata={_KEY: (kind, text, unset, more, flag)})


def options_in(of: Callable[..., Any]) -> Mapping[str, Option]:
    """The options by name that a dataclass declares, or that a function or another class has of some kind."""
    return _options_in(of)


@functools.cache
def _options_in(of: Any) -> Mapping[str, Option]:
    if not is_dataclass(of):
        function: Any = of.__init__ if isinstance(of, type) else of  # type: ignore[misc]
        found_in = vars(function)[_KEY]
        return options_in(found_in) if isinstance(found_in, type) else dict(_in_docstring(of, found_in))
    found = {}
    for one in fields(of):
        if declared := one.metadata.get(_KEY):
            kind, text, unset, more, flag = declared
            flag = f"--{one.name.replace('_', '-')}" if flag is None else flag
            found[one.name] = Option(one.name, one.default, kind, text, unset, more, flag)
    return found


def _in_docstring(taker: Any, kinds: Mapping[str, Kind]) -> Iterator[tuple[str, Option]]:
    """The options that ``named_options`` has the kinds of. An entry is ``text; None: unset. More``."""
    documented = inspect.getdoc(taker) or ""
    for name, kind in kinds.items():
        entry = re.search(rf"^ {{4}}{name}: (.*(?:\n {{8}}.*)*)", documented, re.MULTILINE)
        text, _, unset = " ".join(entry[1].split() if entry else ()).partition("None: ")
        first, unset = re.split(r"\. |[;.]? ?$", text)[0], re.split(r"\.(?: |$)", unset)[0]
        flag = f"--{name.replace('_', '-')}"
        yield name, Option(name, _parameters(taker)[name].default, kind, f"{first}.", unset, flag=flag)


def read_options(given: Any) -> Faults:
    """Reads the options of a dataclass that is being made, and puts what is kept in their place. Returns the faults."""
    faults = Faults()
    for name, declared in options_in(type(given)).items():
        with faults.kept():
            object.__setattr__(given, name, declared.read(getattr(given, name)))
    return faults


def _with_options(kind: type[Any]) -> str:
    """The docstring of a class, with the options that its fields declare."""
    text = inspect.cleandoc(kind.__doc__ or "")
    others = text.find("\nArgs:\n")
    before, after = (text[:others], text[others + 7 :]) if others >= 0 else _parted(text)
    return f"{before.rstrip()}\n\nArgs:\n{''.join(_entries(kind))}{after}"


def _parted(text: str) -> tuple[str, str]:
    before, raises, errors = text.partition("\nRaises:\n")
    return before, raises + errors


def _entries(kind: type[Any]) -> Iterator[str]:
    for name, declared in options_in(kind).items():
        text = f"{name}: {declared.documentation()}"
        yield textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent=" " * 8) + "\n"


@functools.cache
def options_of(taker: Callable[..., Any]) -> frozenset[str]:
    """Names of the arguments that a function or class takes by keyword alone, without those for internal use."""
    return frozenset(
        parameter.name
        for parameter in _parameters(taker).values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not parameter.name.startswith("_")
    )


@functools.cache
def _parameters(taker: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    # Some releases of Python 3.11 would show the parameters of an inherited __new__ instead.
    found: Any = taker
    return inspect.signature(found.__init__ if isinstance(taker, type) else found).parameters


def named_options(
    called: str | None,
    *,
    more: type[Any] | None = None,
    like: Callable[..., Any] | None = None,
    groups: Mapping[str, type[Any]] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    declares: type[Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a function that users call as ``called``, ``"replay()"``: an option that it does not have is an
    UnknownOptionError with the nearest name. None: it refuses such options itself.

    ``more``: the TypedDict of its ``**options``. Its signature shows them one by one, as ``like`` has them, which is
    what completion at a prompt goes by. ``groups``: options that are dataclasses, whose fields may be options of their
    own, too. A field that is none says where it is given, and one that is given twice is a ConfigurationError.
    ``kinds``: what options take. They are checked by it, and ``options_in`` has them, with texts of the docstring.
    ``declares``: a dataclass of options that are among its ``**options``, which are added to its docstring.
    """
    fields_of = {group: {one.name for one in fields(kind)} for group, kind in (groups or {}).items()}
    of_kind = kinds or {}

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if more is None or one.kind is not one.VAR_KEYWORD]
        if declares is not None:
            made: Callable[..., Any] = declares
            own += [one for one in _parameters(made).values() if one.name != "self"]
            before, others, after = inspect.cleandoc(function.__doc__ or "").partition("    **options:")
            function.__doc__ = f"{before}{''.join(_entries(declares))}{others}{after}"
        if more is not None:
            theirs = {} if like is None else _parameters(like)
            for name, kind in more.__annotations__.items():
                written = getattr(kind, "__forward_arg__", kind)
                one = theirs.get(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=written))
                own.append(one.replace(kind=one.KEYWORD_ONLY))
        known = {one.name for one in own if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)} - {"self"}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if called is not None and not known.issuperset(kwargs):
                _refuse_fields(kwargs.keys() - known, called, fields_of)
                refuse_unknown(kwargs, known, called)
            for group, names in fields_of.items():
                if kwargs.get(group) is not None and (both := sorted(names.intersection(kwargs))):
                    raise ConfigurationError(both[0], f"give it in {group}, or leave {group} out")
            for name, kind in of_kind.items():
                if name in kwargs and (kwargs[name] is not None or signature.parameters[name].default is not None):
                    kwargs[name] = kind.read(name, kwargs[name])
            return function(*args, **kwargs)

        vars(checked)[_KEY] = of_kind if declares is None else declares
        shown = [one for one in own if not one.name.startswith("_")]
        vars(checked)["__signature__"] = signature.replace(parameters=shown)
        return checked

    return decorate


def named_fields(kind: K) -> K:
    """Decorates a dataclass of options that users make: a field that it does not have is an UnknownOptionError with the
    nearest name. Options that it declares by ``option()`` are added to its docstring."""
    init = kind.__init__
    if options_in(kind):
        kind.__doc__ = _with_options(kind)
    known = frozenset(one.name for one in fields(kind) if one.init)

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if not known.issuperset(kwargs):
            refuse_unknown(kwargs, known, f"{kind.__name__}()")
        init(self, *args, **kwargs)

    kind.__init__ = checked
    return kind


def _refuse_fields(unknown: Iterable[str], called: str, fields_of: Mapping[str, Collection[str]]) -> None:
    for option in sorted(unknown):
        for group, names in fields_of.items():
            if option in names:
                where = f"{group}=strand.{group.capitalize()}({option}=...)"
                raise UnknownOptionError(called, option, f"give {where}")


def refuse_unknown(given: Collection[str], known: Collection[str], called: str) -> None:
    """Refuses names that are not known. ``called`` says what was called. Raises UnknownOptionError."""
    unknown = sorted(map(str, {*given} - {*known}))
    if not unknown:
        return
    public = sorted(name for name in known if not name.startswith("_"))
    cure = did_you_mean(unknown[0], public) or f"it has {', '.join(public) or 'none'}"
    raise UnknownOptionError(called, unknown[0], cure)


def check_apart(name: str, options: Mapping[str, Any], apart: Collection[str]) -> None:
    """Refuses options, given as the argument ``name``, that have arguments of their own. Raises ConfigurationError."""
    for option in options:
        if not isinstance(option, str):
            raise ConfigurationError(name, f"{option!r} is not the name of an option: give text")
        if option in apart:
            raise ConfigurationError(option, f"give it as an argument of its own, and not in {name}")
