"""Opening of files, folders and pipes as one feed, by their content, whatever they are called; and the options of that,
by name, type and their texts on a command line.
"""

# Not with annotations as text: the declarations of options stand in types.

import dataclasses
import datetime as dt
import importlib
import os
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, Unpack, get_args, get_origin

import numpy as np

from strand.brief import listed
from strand.errors import (
    ConfigurationError,
    FeedError,
    FormatError,
    TruncatedFeedError,
    UnknownFormatError,
    UnknownOptionError,
    called,
)
from strand.feeds.base import BaseFeed, Selection
from strand.feeds.formats.guess import KDB, is_beside_ticks
from strand.feeds.formats.options import ReaderOptions
from strand.feeds.formats.registry import Format, archived, format_named, recognised
from strand.feeds.io.files import (
    Frames,
    Paths,
    as_paths,
    files_in,
    frame_at,
    hours_in,
    is_hour,
    named_paths,
    small_text,
)
from strand.feeds.io.sources import InflateLimits, forget_pipe, is_pipe, open_source, spooled
from strand.feeds.io.stores import object_at
from strand.feeds.io.streams import ZIP_MAGICS, open_stream
from strand.feeds.merge.days import DatedFeed, check_new_day, zone_of, zone_of_days
from strand.feeds.merge.options import ON_DISORDER, Merging
from strand.feeds.merge.selected import CarriedFeed, SelectedFeed, ZonedFeed
from strand.feeds.times import MISREAD_NS, NEW_YORK, Moment, as_date, check_unit, date_in_name, day_of_ns
from strand.options import File, Flag, Text, Whole, check_apart, named_options, options_in, options_of, refuse_unknown
from strand.validate import did_you_mean
from strand.zones import checked_zone

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


_TIME: Final = Text("TIME")


class _Bounds(TypedDict, total=False):
    """Bounds of the ticks that are wanted of files."""

    start: Annotated[
        str | int | None,
        None,
        _TIME,
        'The first receive time wanted: ns since the epoch, ISO 8601 with a zone, or a time of day (``"09:30"``) on '
        "each file's own date, or that of its first tick. None: no bound.\nTimes of day are in ``zone``, else in the "
        "zone of the files, or in New York if they have none; ``info.zone`` says which.",
    ]
    end: Annotated[
        str | int | None,
        None,
        _TIME,
        "The first receive time no longer wanted, in the same forms as ``start``. None: no bound.",
    ]


class _Day(TypedDict, total=False):
    """Day of files."""

    date: Annotated[
        dt.date | str | None,
        None,
        Text("YYYY-MM-DD"),
        'The trading day of files that do not say it, a date or ``"2026-01-05"``: one day, for all of the files.',
    ]


class _Opening(Merging, total=False):
    """All that ``open`` takes beside the ticks that are wanted, and the options of readers."""

    format: Annotated[str | None, None, 'The format to read them as (``"itch"``, ``"csv"``). None: it is recognised.']
    zone: Annotated[
        str | None,
        None,
        Text("ZONE"),
        'The time zone of the files\' times that do not say theirs, and of times of day (``"Europe/Berlin"``). None: '
        "that of the files.",
    ]
    on_disorder: Annotated[
        str | None,
        None,
        ON_DISORDER,
        'At a tick further behind, ``"raise"`` DisorderError, ``"keep"`` the tick, or ``"skip"`` it. None: '
        '``"raise"`` among several files, while one file is read as it is.',
    ]
    new_day: Annotated[
        str | None,
        None,
        Text("file|date|date ZONE"),
        'Begin a new day with each file (``"file"``), or where the date of the receive time changes in UTC '
        '(``"date"``) or in a zone (``"date America/New_York"``). None: with each file of a venue that closes.',
    ]
    renames: Annotated[
        Any,
        None,
        File(),
        "A table of rows (from, to, symbol, name), by which an instrument keeps one name over many days, or the path "
        "of a CSV file with these columns.\n``strand.feeds.adjusted`` has the rules. None: names stay as they are.",
    ]
    splits: Annotated[
        Any,
        None,
        File(),
        "A table of rows (date, symbol, factor), by which prices and sizes before a split are counted in the units "
        "after it, or the path of a CSV file with these columns.\n``strand.feeds.adjusted`` has the rules. None: they "
        "stay as they are.",
    ]


class FeedOptions(ReaderOptions, _Day, _Opening, total=False):
    """``feed_options``: what ``strand.feeds.open`` takes beside the files and which of their ticks are wanted."""


class OpenOptions(_Bounds, FeedOptions, total=False):
    """All that ``strand.feeds.open`` takes beside the files."""

    symbols: Annotated[
        Sequence[str],
        (),
        "Names or globs of the symbols wanted, and ``@FILE`` for a file with one per line.\nEmpty: all.",
    ]


class ReadOptions(_Bounds, _Day, total=False):
    """Options of calls that open a source themselves, and read it to its end."""

    symbols: Annotated[
        Sequence[str] | None,
        None,
        'Names or globs (``"AA*"``) of the symbols wanted, and ``@FILE`` for a file with one per line. None: all.',
    ]
    limit: Annotated[int | None, None, Whole(1), "How many ticks to take at most. None: all of them."]
    allow_empty: Annotated[
        bool,
        False,
        Flag(takes_none=True),
        "Accept a source without any tick, which is an error otherwise.\nThe error is EmptyFeedError.",
    ]
    feed_options: Annotated[FeedOptions | None, None, "The other options of ``strand.feeds.open``, by name."]


#: Reader options for which a command has an option of its own.
_ELSEWHERE: Final = ("symbols", "date", "zone", "profile", "on_bad_record")
_TRUTHS: Final = {"true": True, "false": False}
#: The keys of a column that may be a list.
_LISTS: Final = ("join", "column", "unit")


def option_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """Values for ``strand.feeds.open`` of texts by name, each as the readers that have the option take it.

    Numbers are whole; what is on or off is ``true`` or ``false``; a list has commas; what maps names is given by
    ``OPTION.NAME``, where an empty text is None: ``{"columns.price": "px", "columns.flags": ""}`` becomes ``{"columns":
    {"price": "px", "flags": None}}``. A key of a column's follows it: ``columns.price.unit``, ``columns.side.map.buy``.
    ``limits.max_ratio`` and the like make ``InflateLimits``. Raises ConfigurationError for an option that no reader
    has, and for a text that cannot be its value.
    """
    kinds = {
        name: {*get_args(hint)} or {hint}
        for name, hint in ReaderOptions.__annotations__.items()
        if name not in _ELSEWHERE
    }
    values: dict[str, Any] = {}
    for said, text in texts.items():
        option, dot, name = said.partition(".")
        if option in _ELSEWHERE:
            raise ConfigurationError(said, f"give it by --{option.replace('_', '-')}, an option of its own")
        if option not in kinds:
            cure = did_you_mean(option, kinds) or f"there are {', '.join(sorted(kinds))}"
            raise ConfigurationError(said, f"no reader has such an option; {cure}")
        kind = kinds[option]
        mapped = InflateLimits in kind or any(get_origin(part) is Mapping for part in kind)
        if mapped != bool(dot and name):
            example = f"{option}.NAME=VALUE" if mapped else f"{option}=VALUE"
            raise ConfigurationError(said, f"it is given as {example}")
        try:
            if option == "columns":
                _set_column(values.setdefault(option, {}), name, text)
            elif mapped:
                values.setdefault(option, {})[name] = _entry(kind, name, text)
            else:
                values[option] = _value(kind, text)
        except ConfigurationError:
            raise
        except KeyError:
            raise ConfigurationError(said, f"give true or false, not {text!r}") from None
        except ValueError:
            whole = "" if name == "max_ratio" else "whole "
            raise ConfigurationError(said, f"{text!r} is not a {whole}number") from None
    if "limits" in values:
        values["limits"] = _limits(values["limits"])
    return values


def _value(kinds: set[Any], text: str) -> Any:
    if Collection[int] in kinds:
        return [int(part) for part in text.split(",")]
    if bool in kinds:
        return _TRUTHS[text]
    if Sequence[str] in kinds:
        return text.split(",")
    return int(text) if int in kinds else text


def _entry(kinds: set[Any], name: str, text: str) -> Any:
    if InflateLimits in kinds:
        number: Callable[[str], Any] = float if name == "max_ratio" else int
        return number(text)
    if Mapping[str, int] in kinds:
        return int(text, 0)
    # Of constants: a number, or a word.
    return int(text) if text.lstrip("-").isdecimal() else text


def _set_column(columns: dict[str, Any], said: str, text: str) -> None:
    """Sets what ``FIELD``, ``FIELD.KEY`` or ``FIELD.map.TEXT`` is, beside what was said of the field before."""
    field, dot, rest = said.partition(".")
    before = columns.get(field)
    if not dot:
        columns[field] = {"column": text, **before} if isinstance(before, dict) else text or None
        return
    keys: dict[str, Any] = before if isinstance(before, dict) else {} if before is None else {"column": before}
    columns[field] = keys
    key, dot, entry = rest.partition(".")
    if key in keys and isinstance(keys[key], dict) != bool(dot):
        raise ConfigurationError(f"columns.{field}.{key}", "given both as one text and by its entries")
    if dot:
        keys.setdefault(key, {})[entry] = text
    else:
        keys[key] = text.split(",") if key in _LISTS and "," in text else _TRUTHS.get(text, text)


def _limits(given: dict[str, Any]) -> InflateLimits:
    known = [field.name for field in dataclasses.fields(InflateLimits)]
    for name in given:
        if name not in known:
            raise ConfigurationError(f"limits.{name}", f"there are {', '.join(known)}")
    return InflateLimits(**given)


#: Arguments of ``open`` that functions with a mapping of its options have as arguments of their own.
_APART: Final = frozenset(("path_or_paths", "symbols", "start", "end"))

#: Those of its options that no reader has to have.
_OWN: Final = {*_APART, *FeedOptions.__annotations__} - {"date", *ReaderOptions.__annotations__}
#: Readers whose ticks may say that a day ends.
_WITH_DAYS: Final = frozenset(("npy", "parquet", "csv", "itch", "recording", "pcap", "dbn"))
_COMMENT: Final = re.compile(r"(?:^|\s)#")
_HEAD_BYTES: Final = 1 << 15
#: A folder of a partition of kdb+: a day or a month.
_KDB_PARTITION: Final = re.compile(r"\d{4}\.\d\d(?:\.\d\d)?")


@named_options(None, declares=OpenOptions)
def open(path_or_paths: Paths | Frames, **options: Unpack[OpenOptions]) -> BaseFeed:  # noqa: A001
    """Opens a file, or several merged in time, each as the format that its content shows.

    Readers that can do so skip unread what ``symbols``, ``start`` and ``end`` leave out.

    Args:
        path_or_paths: A path, or a sequence of paths. A path is a file, a folder (all files in it that can be read, by
            name), a glob (``"2026-01-*.gz"``), ``-`` for standard input, a named pipe, or a file in an archive
            (``day.zip/trades.csv``). Or a table in memory: a DataFrame or LazyFrame of polars, a DataFrame of pandas,
            a Table or RecordBatchReader of pyarrow, a structured array of numpy.
        **options: Options of the readers: ``on_bad_record``, ``batch_ticks``, ``limits``, and each reader's own.

    Raises:
        FeedError: If a file cannot be read, or is empty.
        UnknownFormatError: If no reader knows the content.
        UnknownOptionError: If the files' reader does not have an option.
        ConfigurationError: If a value cannot work.
    """
    format, zone, new_day, carry_over = (  # noqa: A001
        options["format"], options["zone"], options["new_day"], options["carry_over"],
    )  # fmt: skip
    if format is None and options.get("profile") is not None:
        # A profile says what the content does not show.
        from strand.feeds.formats.json.profile import is_message_profile

        format = "jsonl" if is_message_profile(options["profile"]) else "csv"  # noqa: A001
    moments = [
        None if given is None else Moment.parse(name, given)
        for name, given in (("start", options["start"]), ("end", options["end"]))
    ]
    wanted = tuple(read_symbols(options["symbols"]))
    day_zone = zone_of(new_day)
    if day_zone is None:
        check_new_day(new_day)
    if zone is not None:
        checked_zone("zone", zone)
    if carry_over and new_day is not None:
        raise ConfigurationError(
            "carry_over", "with new_day= days end, and nothing is carried over: give only one of the two"
        )
    source = as_paths(path_or_paths)
    paths = expand(source, options)
    _check_once(paths)
    with ExitStack() as copies:
        chosen = [_readable(path, format, options, copies) for path in paths]
        renames, splits = options["renames"], options["splits"]
        is_adjusted = renames is not None or splits is not None
        feed = _opened(chosen, moments, () if is_adjusted else wanted, day_zone, options)
        if is_adjusted:
            adjustments = importlib.import_module("strand.feeds.merge.adjustments")  # only where it is needed
            try:
                inexact = options.get("inexact") or "raise"
                feed = adjustments.adjusted(feed, renames=renames, splits=splits, inexact=inexact, zone=zone)
            except BaseException:
                feed.close()
                raise
            feed = SelectedFeed(feed, Selection(wanted)) if wanted else feed
        weakref.finalize(feed, copies.pop_all().close)
    return feed


def _opened(
    chosen: Sequence[tuple[str | Path, Format]],
    moments: Sequence[Moment | None],
    wanted: tuple[str, ...],
    day_zone: "ZoneInfo | None",
    options: Mapping[str, Any],
) -> BaseFeed:
    """The feed of files whose formats are known. Raises as ``open``."""
    date, zone, on_disorder, new_day, carry_over = (
        options[name] for name in ("date", "zone", "on_disorder", "new_day", "carry_over")
    )
    paths = [path for path, _ in chosen]
    of_day = [
        name for name, moment in zip(("start", "end"), moments, strict=True) if moment is not None and moment.needs_date
    ]
    own: dict[str, Any] = {
        name: value for name, value in options.items() if name not in _OWN and (name != "date" or value is not None)
    }
    if date is not None:
        _check_one_day(paths)
    # A time of day needs a date, also of files whose readers do not.
    _check_options({known for _, known in chosen}, {name for name in own if not (of_day and name == "date")})

    def opened(path: Any, known: Format, day_of: str | Path) -> BaseFeed:
        reader = known.feed_class()
        taken = {name: value for name, value in own.items() if name in options_of(reader)}
        if zone is not None and "zone" in options_of(reader):
            taken["zone"] = zone
        day = as_date(date) if date is not None else None if of_day else date_in_name(day_of)
        if day is None and of_day:
            day = _first_day(reader, path, taken, shown_zone)
        start_ns, end_ns = (None if moment is None else moment.ns(day, day_of, shown_zone) for moment in moments)
        for name, ns in (("start", start_ns), ("end", end_ns)):
            if ns is None or not MISREAD_NS[0] <= ns < MISREAD_NS[1]:
                continue
            if (of := day or _first_day(reader, path, taken, shown_zone)) is not None:
                check_unit(name, ns, of)
        select = Selection(wanted, start_ns, end_ns)
        if not select:
            feed: BaseFeed = reader(path, **taken)
        elif "select" in options_of(reader):
            feed = reader(path, select=select, **taken)
        else:
            feed = SelectedFeed(reader(path, **taken), select)
        if (zone is not None or of_day) and feed.info.zone is None and not feed.info.undated:
            feed = ZonedFeed(feed, shown_zone)
        # These readers make clear records of their own, or files of ticks hold them.
        return CarriedFeed(feed) if carry_over and known.name in _WITH_DAYS else feed

    parts: list[tuple[Any, Format, str | Path]] = [(path, known, path) for path, known in chosen]
    known = chosen[0][1]
    shown_zone = _zone_of_day(of_day[0], chosen, own, zone) if of_day else zone or NEW_YORK
    if known.takes_list and all(other is known for _, other in chosen):
        parts = [(paths if len(paths) > 1 else paths[0], known, paths[0])]
    if len(parts) == 1 and not (options["reorder_ns"] or on_disorder is not None or options["venue_in_name"]):
        feed = opened(*parts[0])
        _check_zone([feed], zone)
        return _dated(feed, day_zone)
    merge = importlib.import_module("strand.feeds.merge.feeds")  # only where it is needed: it builds on this package
    feeds: list[BaseFeed] = []
    try:
        feeds.extend(opened(*part) for part in parts)
        _check_zone(feeds, zone)
        day_zone = day_zone if new_day or carry_over else zone_of_days([feed.info for feed in feeds])
        merged: BaseFeed = merge.merge_feeds(
            feeds,
            reorder_ns=options["reorder_ns"],
            on_disorder="raise" if on_disorder is None else on_disorder,
            venue_in_name=options["venue_in_name"],
            new_day=None if day_zone is not None else new_day,
            carry_over=carry_over,
            _dated=day_zone is not None,
        )
    except BaseException:
        for feed in feeds:
            feed.close()
        raise
    return _dated(merged, day_zone)


def _dated(feed: BaseFeed, day_zone: "ZoneInfo | None") -> BaseFeed:
    """The feed, with new days where the date changes in a zone, if one is given."""
    return feed if day_zone is None else DatedFeed(feed, day_zone)


def read_symbols(symbols: Sequence[str]) -> list[str]:
    """Reads the names and globs that ``symbols`` gives, with those in the files that it names.

    Args:
        symbols: Names and globs, and ``@FILE`` for a file with one per line; empty lines and ``# ...`` are skipped.

    Returns:
        All names and globs, in order.

    Raises:
        ConfigurationError: If ``symbols`` is no sequence of names, or a file cannot be read or names none.
    """
    if isinstance(symbols, str):
        raise ConfigurationError("symbols", f"give a sequence of names, not the one text {symbols!r}")
    if not isinstance(symbols, Iterable):
        raise ConfigurationError("symbols", f"give a sequence of names, not {symbols!r}")
    names: list[str] = []
    for name in symbols:
        if not isinstance(name, str) or not name:
            raise ConfigurationError("symbols", f"{name!r} is neither a symbol's name nor a glob of names")
        if not name.startswith("@"):
            names.append(name)
            continue
        lines = small_text(name[1:], "symbols").splitlines()
        # A name may have a # in it, but no space before one.
        bare = [_COMMENT.split(line, maxsplit=1)[0].strip() for line in lines]
        found = [line for line in bare if line]
        if not found:
            raise ConfigurationError("symbols", f"the file {name[1:]} has no names")
        names.extend(found)
    return names


def takes_option(path: str | Path, name: str, options: Mapping[str, Any]) -> bool:
    """Tells whether the reader of a file has an option. Raises as ``open`` does."""
    return name in options_of(_format_of(path, options.get("format"), options).feed_class())


def options_with_date(feed_options: FeedOptions | None, date: dt.date | str | None) -> FeedOptions:
    """The options of ``open`` that a function takes as ``feed_options``, and as ``date`` beside it. Raises
    ConfigurationError for a value that is no dict of options, and for an option that is an argument of the function."""
    if feed_options is None:
        feed_options = {}
    if not isinstance(feed_options, Mapping):
        raise ConfigurationError("feed_options", f"{feed_options!r} is not a dict of options by name")
    check_apart("feed_options", feed_options, _APART if date is None else {*_APART, "date"})
    return feed_options if date is None else {**feed_options, "date": date}


def expand(path_or_paths: Paths, options: Mapping[str, Any]) -> list[str | Path]:
    """The files that are meant, in the order they are opened in. Raises FeedError, ConfigurationError."""
    paths: list[str | Path] = []
    for path in named_paths(path_or_paths):
        is_folder = isinstance(path, Path) and path.is_dir()
        paths.extend(_in_folder(Path(path), options) if is_folder else _in_archive(path, options) or [path])
    if not paths:
        raise ConfigurationError("path_or_paths", "no file is named")
    return paths


#: Bytes, unpacked, by which copies are told.
_HEAD: Final = 1 << 20
_PACKED: Final = (".gz", ".bz2", ".xz", ".lzma", ".zst", ".zip")


def _check_once(paths: Sequence[str | Path]) -> None:
    """Refuses a file that is named twice, as by two globs that overlap: all of its ticks would come twice."""
    named: dict[str, str | Path] = {}
    for path in paths:
        found = object_at(path)
        first = named.setdefault(os.path.realpath(path) if found is None else found.url, path)
        if first is not path:
            same = "is named twice" if called(first) == called(path) else f"is the same file as {called(first)}"
            raise ConfigurationError(
                "source", f"{called(path)} {same}, and all of its ticks would come twice: name it once"
            )
    _check_copies([path for path in paths if isinstance(path, Path) and path.is_file()])


def _check_copies(paths: Sequence[Path]) -> None:
    """Refuses a file beside its packed copy: they have one name but for the packing, and begin with the same ``_HEAD``
    bytes."""
    alike: dict[Path, list[Path]] = {}
    for path in paths:
        alike.setdefault(path.with_suffix("") if path.suffix in _PACKED else path, []).append(path)
    for group in alike.values():
        heads: dict[bytes, Path] = {}
        for path in group if len(group) > 1 else ():
            with closing(open_stream(path)) as stream:
                first = heads.setdefault(stream.head(_HEAD), path)
            if first is not path:
                raise ConfigurationError(
                    "source",
                    f"{path} holds what {first} holds, and all of its ticks would come twice: name one of them",
                )


def _in_archive(path: str | Path, options: Mapping[str, Any]) -> list[Path]:
    """The files in a zip archive of several that can be read, by name; those with other endings are passed over, as in
    a folder. Empty for any other file, and where no file in it can be read. Raises FeedError."""
    return _tried(archived(path), path, options)[0]


def _tried(
    files: Sequence[Path], folder: str | Path, options: Mapping[str, Any]
) -> tuple[list[Path], dict[Path, FeedError]]:
    """Those of some files that can be read, and the faults of the others. A file that looks like those that are read is
    not passed over in silence: raises FormatError, UnknownFormatError."""
    found, others = list[Path](), dict[Path, FeedError]()
    for path in files:
        try:
            if options.get("profile") is None:
                recognised(path, options.get("limits"))
            else:
                _check_fits(path, options)
        except (UnknownFormatError, FormatError) as error:
            others[path] = error
        else:
            found.append(path)
    endings = {path.suffix for path in found}
    for path, fault in others.items():
        if path.suffix in endings and not is_beside_ticks(path.name):
            raise type(fault)(f"name the files to read, or move this one out of there: {fault}", path=folder)
    return found, others


def _in_folder(folder: Path, options: Mapping[str, Any]) -> list[Path]:
    """The files in a folder that can be read, by name; those with other endings are passed over. Of Dukascopy's hours
    those in the folders below it, too. Raises FeedError."""
    hours = [] if options.get("profile") is not None else hours_in(folder)
    if hours and all(map(is_hour, files_in(folder))):
        return hours
    files = [inner for file in files_in(folder) if file not in hours for inner in archived(file) or [file]]
    more, others = _tried(files, folder, options)
    found = hours + more
    endings = {path.suffix for path in found}
    if not found:
        folders = [each for each in folder.iterdir() if each.is_dir()]
        inner = sorted(each.name for each in folders)
        also = f"; it holds folders: name one of {listed(inner)}" if inner else ""
        if any(map(_KDB_PARTITION.fullmatch, inner)) or any((each / ".d").is_file() for each in (folder, *folders)):
            also = f"; it looks like a table or a database of kdb+: {KDB}"
        kind: type[FeedError] = UnknownFormatError
        if others and not also:
            suffixes = [path.suffix for path in others]
            one = others[max(others, key=lambda path: suffixes.count(path.suffix))]
            kind, also = type(one), f": {one}"
        raise kind(f"the directory holds no file that can be read{also}", path=folder)
    empty = [path.name for path in files_in(folder, empty=True) if path.suffix in endings and path not in hours]
    if empty:
        raise TruncatedFeedError(
            f"it holds empty files ({listed(empty)}), as downloads that failed: get them again, or remove them if they "
            "have to be so",
            path=folder,
        )
    return found


def _check_fits(path: Path, options: Mapping[str, Any]) -> None:
    """Raises FormatError for a file that the profile cannot be for."""
    from strand.feeds.formats.csv.profile import match, named_profile
    from strand.feeds.formats.json.profile import is_message_profile

    with open_stream(path, limits=options.get("limits")) as stream:
        head = stream.head(_HEAD_BYTES)
    if is_message_profile(options["profile"]):
        first = head.lstrip().partition(b"\n")[0]
        found = None if b"{" in first or b"[" in first else FormatError("does not begin with JSON", path=path)
    else:
        made = match(named_profile(options["profile"]), head, path)
        found = made if isinstance(made, FormatError) else None
    if found is not None:
        raise found


def _readable(
    path: str | Path,
    format: str | None,  # noqa: A002
    options: Mapping[str, Any],
    copies: ExitStack,
) -> tuple[str | Path, Format]:
    """A file and its format. Of a pipe or an object of a store whose reader seeks, a copy."""
    if (found := object_at(path)) is not None:
        copies.callback(found.__fspath__)  # it lives as long as the feed
        path = Path(path)
    elif not is_pipe(path):
        return path, _format_of(path, format, options)
    else:
        forget_pipe(path)
    with open_source(path) as source:
        is_archive = source.head(4).startswith(ZIP_MAGICS)
    if not is_archive:
        known = _format_of(path, format, options)
        if found is not None and known.in_parts:
            return path, known
        with open_stream(path, limits=options.get("limits")) as stream:
            if not known.seeks or not stream.head(4).startswith(known.seeks):
                return path, known
    copy = spooled(path)
    copies.callback(copy.close)
    return copy.path, known if not is_archive else _format_of(copy.path, format, options)


def _format_of(path: str | Path, format: str | None, options: Mapping[str, Any]) -> Format:  # noqa: A002
    if (frame := frame_at(path)) is not None:
        return format_named("npy" if isinstance(frame.table, np.ndarray) else "parquet")
    if is_pipe(path):
        forget_pipe(path)
    return format_named(format) if format is not None else recognised(path, options.get("limits"))


def _check_one_day(paths: Sequence[str | Path]) -> None:
    """Refuses one ``date`` for files whose names, or folders' names, are of several days."""
    days: dict[dt.date, str | Path] = {}
    for path in paths:
        day = date_in_name(path) or date_in_name(Path(path).parent)
        if day is not None:
            days.setdefault(day, path)
    if len(days) > 1:
        (one, first), (other, second) = list(days.items())[:2]
        raise ConfigurationError(
            "date",
            f"leave it out, as the names say the days, or give the files of one day: {first} is of {one} and "
            f"{second} of {other}",
        )


def _check_zone(feeds: Sequence[BaseFeed], zone: str | None) -> None:
    """Refuses a zone that says nothing: all files say another one themselves."""
    if zone is None or any(feed.info.zone in (zone, None) for feed in feeds):
        return
    for feed in feeds:
        feed.close()
    raise ConfigurationError(
        "zone",
        f"leave it out: {feeds[0].info.path} has times of {feeds[0].info.zone}; for times of day in another zone give "
        "the date and the zone too, as 2026-01-05T09:30-05:00",
    )


def _zone_of_day(
    option: str, chosen: Sequence[tuple[str | Path, Format]], options: Mapping[str, Any], zone: str | None
) -> str:
    """The zone of times of day: ``zone``, or the one of the files, New York if they have none. Raises
    ConfigurationError where they are of several."""
    zones: dict[str, str | Path] = {}
    for path, known in chosen:
        reader = known.feed_class()
        if is_pipe(path):
            continue
        given = {**options, "zone": zone} if zone is not None else options
        with reader(path, **{name: value for name, value in given.items() if name in options_of(reader)}) as feed:
            found = feed.info.zone or zone
            if found is not None:
                zones.setdefault(found, path)
    if len(zones) > 1:
        (one, first), (other, second) = list(zones.items())[:2]
        raise ConfigurationError(
            option,
            f"give a time with its date and zone, as 2026-01-05T09:30-05:00: {first} has times of {one} and "
            f"{second} of {other}, so a time of day could be of either",
        )
    return next(iter(zones), NEW_YORK)


def _first_day(reader: Any, path: Any, options: Mapping[str, Any], zone: str) -> dt.date | None:
    """The day that a file itself says, or that of its first tick in a zone; None if it says neither."""
    with reader(path, **options) as feed:
        if feed.info.date is not None:
            return as_date(feed.info.date)
        frame = frame_at(path)
        if feed.info.undated or is_pipe(path) or (frame is not None and frame.is_read_once):
            return None
        first = next((batch for batch in feed.batches() if len(batch)), None)
        return None if first is None else day_of_ns(int(first["ts_recv"][0]), zone)


def _check_options(used: set[Format], options: set[str]) -> None:
    """Each option has to be one of a reader that is used; ``select`` is made of ``symbols``, ``start`` and ``end``."""
    known = {name for form in used for name in options_of(form.feed_class())} - {"select"}
    if not options <= known:
        names = " or ".join(sorted(form.name for form in used))
        if of_runs := sorted(options & ({*options_in(ReadOptions)} - {*options_in(OpenOptions)})):
            cure = f"give it to what reads the feed, as in strand.replay(feed, {of_runs[0]}=...)"
            raise UnknownOptionError("feeds.open()", of_runs[0], cure)
        refuse_unknown(options, known | _OWN, f"feeds.open() of {names} files")
