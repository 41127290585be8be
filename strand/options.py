"""Options: the one declaration of each, what they take, and the refusal of names that are none.

An option is declared by ``option()``: its text, what it takes and its default. The declaration stands at a field of a
frozen dataclass, which reads all of them by ``read_options`` in its ``__post_init__``. Where a function or class takes
options by keyword, it stands in the type of a key of their TypedDict: ``name: Annotated[type, default, kind, text]``.
Without a kind, ``bool`` takes yes or no, ``Literal`` its words, and any other type what is checked where it is used.
The text is like ``"The option. None: what that does.\\nFurther sentences."``. ``named_options(declares=)`` reads them.
Errors have the field's name. Signatures, documentation, configuration files
and the command line are made of the same declaration.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, Literal, TypeVar, Union, get_args, get_origin, is_typeddict

from strand.dicts import FrozenDict
from strand.errors import ConfigurationError, UnknownOptionError
from strand.fixed import dataclass
from strand.spans import span_ns, span_text
from strand.validate import MAXIMUM, Faults, did_you_mean, is_between, one_of, path, shown, whole, yes_or_no

#: The key of an option in the metadata of its field.
_KEY: Final = "strand.option"
#: Letters of a line of a docstring.
_WIDTH: Final = 116

F = TypeVar("F", bound=Callable[..., Any])
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
class Object(Kind):
    """An object of a class. ``word``: the class in an error, for one that is not in ``strand`` under its name."""

    of: type[Any]
    word: str = ""

    def read(self, field: str, value: Any) -> Any:
        if not isinstance(value, self.of):
            raise ConfigurationError(field, f"{shown(value)} is not a {self.word or f'strand.{self.of.__name__}'}")
        return value


@dataclass(frozen=True, slots=True)
class Made(Kind):
    """The value that a function makes of the option's name and what was given. It raises ConfigurationError."""

    by: Callable[[str, Any], Any]

    def read(self, field: str, value: Any) -> Any:
        return self.by(field, value)


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
        flag: The name of the command's option, ``--min-workers``; empty if the command has none; ``--``: of ``name``.
    """

    name: str
    default: Any
    kind: Kind
    text: str
    unset: str = ""
    more: str = ""
    flag: str = ""

    def __post_init__(self) -> None:
        if self.flag == "--":
            object.__setattr__(self, "flag", f"--{self.name.replace('_', '-')}")

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
        if value is None and (self.unset or self.default is None):
            return None
        try:
            return self.kind.read(self.name, value)
        except ConfigurationError as error:
            if self.unset and error.field == self.name and not error.others:
                unset = self.unset.replace("``", "")
                raise ConfigurationError(self.name, f"{error.reason}; None: {unset}") from None
            raise


def option(default: Any, kind: Kind, text: str, *, unset: str = "", more: str = "", flag: str | None = "") -> Any:
    """Returns the field of an option: see ``Option``. ``flag``: None makes it of the field's name."""
    return field(default=default, metadata={_KEY: (kind, text, unset, more, "--" if flag is None else flag)})


def options_in(of: Callable[..., Any]) -> Mapping[str, Option]:
    """The options by name that a dataclass or TypedDict declares, or that a function or another class takes."""
    return _options_in(of)


@functools.cache
def _options_in(of: Any) -> Mapping[str, Option]:
    if is_typeddict(of):
        types = of.__annotations__.items()
        return {
            name: _option(name, hint.__origin__, *hint.__metadata__)
            for name, hint in types
            if hasattr(hint, "__metadata__")
        }
    if not is_dataclass(of):
        function: Any = of.__init__ if isinstance(of, type) else of  # type: ignore[misc]
        declares = vars(function)[_KEY]
        return {} if declares is None else options_in(declares)
    return {one.name: Option(one.name, one.default, *one.metadata[_KEY]) for one in fields(of) if _KEY in one.metadata}


def _option(name: str, hint: Any, default: Any, *said: Any) -> Option:
    """The option of the declaration in a type. A field in place of it is the declaration of that field."""
    if not said:
        return Option(name, default.default, *default.metadata[_KEY])
    *kinds, text = said
    text, _, more = text.partition("\n")
    text, _, unset = text.partition(" None: ")
    return Option(name, default, kinds[0] if kinds else _kind_of(hint), text, unset.removesuffix("."), more, "--")


def _kind_of(hint: Any) -> Kind:
    union = get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is Union else (hint,)
    kind, *others = [one for one in union if one is not NoneType]
    if others or (kind is not bool and get_origin(kind) is not Literal):
        return Kind()
    return Flag() if kind is bool else Choice(get_args(kind))


def read_options(given: Any) -> Faults:
    """Reads the options of a dataclass that is being made, and puts what is kept in their place. Returns the faults."""
    faults = Faults()
    for name, declared in options_in(type(given)).items():
        with faults.kept():
            object.__setattr__(given, name, declared.read(getattr(given, name)))
    return faults


def read_given(of: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a TypedDict declares, with what is kept of those that are given, and the others' defaults.
    Raises ConfigurationError, with all faults."""
    options, found = options_in(of), {**_defaults(of), **given}  # type: ignore[arg-type]
    for name, value in given.items():
        declared = options.get(name)
        if declared is not None:
            try:
                found[name] = declared.read(value)
            except ConfigurationError:
                _refuse(options, given)
    return found


@functools.cache
def _defaults(of: Any) -> Mapping[str, Any]:
    """Values that are kept of the options that a TypedDict declares where they are not given."""
    return {name: one.read(one.default) for name, one in options_in(of).items()}


def _refuse(options: Mapping[str, Option], given: Mapping[str, Any]) -> None:
    """Raises ConfigurationError, with the faults of all options that are given, in the order of their declaration."""
    faults = Faults()
    for name, declared in options.items():
        with faults.kept():
            if name in given:
                declared.read(given[name])
    faults.end()


def _with_options(text: str, first: Iterable[Option], last: Iterable[Option] = ()) -> str:
    """A docstring with entries of options: ``first`` before those that it has, ``last`` behind them."""
    about, *sections = re.split(r"\n+(?=(?:Args|Returns|Raises):\n)", inspect.cleandoc(text))
    args = f"{sections.pop(0)}\n" if sections and sections[0].startswith("Args:") else "Args:\n"
    own, others, rest = args.removeprefix("Args:\n").partition("    **options:")
    entries = f"Args:\n{_entries(first)}{own}{_entries(last)}{others}{rest}".rstrip()
    return "\n\n".join((about, entries, *sections))


def _entries(options: Iterable[Option]) -> str:
    texts = (f"{one.name}: {one.documentation()}" for one in options)
    return "".join(
        textwrap.fill(one, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8) + "\n" for one in texts
    )


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
    groups: Mapping[str, type[Any]] | None = None,
    declares: type[Any] | None = None,
) -> Callable[[F], F]:
    """Decorates a function or class that users call as ``called``, ``"replay()"``: an option that it does not have is
    an UnknownOptionError with the nearest name. None: it refuses such options itself.

    ``more``: the TypedDict or dataclass of its ``**options``. Its signature shows them one by one, with the defaults
    that they declare, which is what completion at a prompt goes by. ``groups``: options that are dataclasses, whose
    fields may be options of their own, too. A field that is none says where it is given, and one that is given twice is
    a ConfigurationError. ``declares``: a TypedDict that declares options, which are shown so, added to the docstring,
    and read: the function is called with all of them.
    """
    fields_of = {group: {one.name for one in fields(kind)} for group, kind in (groups or {}).items()}

    def decorate(taker: F) -> F:
        of: Any = taker
        is_class = isinstance(of, type)
        function = of.__init__ if is_class else of
        signature = inspect.signature(function)
        shown = {
            one.name: one
            for one in signature.parameters.values()
            if one.kind is not one.VAR_KEYWORD or (more is None and declares is None)
        }
        declared = {} if declares is None else options_in(declares)
        if declared:
            last = [one for name, one in declared.items() if name not in shown]
            taker.__doc__ = _with_options(
                taker.__doc__ or "", [declared[name] for name in shown if name in declared], last
            )
        by_place = {
            place: one.name
            for place, one in enumerate(shown.values())
            if one.name in declared and one.kind is one.POSITIONAL_OR_KEYWORD
        }
        for kind in (declares, more):
            shown |= {one.name: one for one in _keywords(kind) if one.name not in shown}
        known = {one.name for one in shown.values() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        known.discard("self")

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if called is not None and not known.issuperset(kwargs):
                _refuse_fields(kwargs.keys() - known, called, fields_of)
                refuse_unknown(kwargs, known, called)
            for group, names in fields_of.items():
                if kwargs.get(group) is not None and (both := sorted(names.intersection(kwargs))):
                    raise ConfigurationError(both[0], f"give it in {group}, or leave {group} out")
            if declares is None:
                return function(*args, **kwargs)
            placed = {name: args[place] for place, name in by_place.items() if place < len(args)}
            if not placed.keys().isdisjoint(kwargs):
                return function(*args, **kwargs)  # which Python refuses
            read = read_given(declares, kwargs | placed)
            if placed:
                args = tuple(read.pop(by_place[place]) if place in by_place else one for place, one in enumerate(args))
            return function(*args, **read)

        vars(checked)[_KEY] = declares
        public = [one for one in shown.values() if not one.name.startswith("_")]
        vars(checked)["__signature__"] = signature.replace(parameters=public)
        if not is_class:
            return checked  # type: ignore[return-value]
        of.__init__ = checked
        return taker

    return decorate


def _keywords(of: type[Any] | None) -> Iterator[inspect.Parameter]:
    """The keywords that a signature shows for the options of a TypedDict, or for the fields of a dataclass."""
    if is_dataclass(of):
        yield from (one.replace(kind=one.KEYWORD_ONLY) for one in inspect.signature(of).parameters.values())
        return
    for name, hint in ({} if of is None else of.__annotations__).items():
        default = inspect.Parameter.empty
        if hasattr(hint, "__metadata__"):
            default, hint = options_in(of)[name].default, hint.__origin__  # type: ignore[arg-type]
        written = getattr(hint, "__forward_arg__", hint)
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=written)


def named_methods(kind: K) -> K:
    """Decorates a class: a keyword that a public method of it does not have is an UnknownOptionError with the nearest
    name. Methods without options, and those that hand keywords on, stay as they are."""
    for name in dir(kind):
        method = getattr(kind, name)
        if name[0] == "_" or not inspect.isfunction(method) or hasattr(method, "__wrapped__"):
            continue
        has_options = method.__defaults__ or method.__kwdefaults__
        if has_options and not method.__code__.co_flags & inspect.CO_VARKEYWORDS:
            setattr(kind, name, _checked_names(method))
    return kind


def _checked_names(method: F) -> F:
    code = method.__code__
    last = code.co_argcount + code.co_kwonlyargcount
    known, called = frozenset(code.co_varnames[code.co_posonlyargcount : last]) - {"self"}, f"{method.__name__}()"

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not known.issuperset(kwargs):
            refuse_unknown(kwargs, known, called)
        return method(*args, **kwargs)

    return checked  # type: ignore[return-value]


def named_fields(kind: K) -> K:
    """Decorates a dataclass of options that users make: a field that it does not have is an UnknownOptionError with the
    nearest name. Options that it declares by ``option()`` are added to its docstring."""
    init = kind.__init__
    if options := options_in(kind):
        kind.__doc__ = _with_options(kind.__doc__ or "", options.values())
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
