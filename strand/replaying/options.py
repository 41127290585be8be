"""The options of ``strand.replay``: what each takes, and their types for what is called like it."""

# Not with annotations as text: the declarations of options stand in types.

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from strand.dispatch.configuration import RunOptions
from strand.errors import ConfigurationError
from strand.feeds.opening import ReadOptions
from strand.options import File, Flag, Text, Whole, read_given
from strand.validate import is_whole, shown

if TYPE_CHECKING:
    from strand.output.sinks import Destination
    from strand.replaying.pacing import Pacer
    from strand.replaying.snapshots import Snapshot

_FLAG = Flag(takes_none=True)


class Asked(ReadOptions, total=False):
    """The options that a replay has itself. Those that may be anything are checked where they are used."""

    position: Annotated[
        int, 0, Whole(0), "How many ticks of the selection to skip first.\n``limit`` counts from there."
    ]
    progress: Annotated[
        bool | Callable[[int], None],
        False,
        "True shows a bar, on standard error if it is a terminal, or in a notebook.\nIt has the rate and the feed's "
        "time; where the end is known, also the share done and the time left. A function is called with the number "
        "of ticks handled so far, dropped ones included. If it has a method ``opened``, that is called first, with "
        "the feed. If it has ``follow``, that is called with a function that returns the feed's time, and ``given`` "
        "with one that returns the number of ticks published so far.",
    ]
    pin_publisher: Annotated[
        bool | None,
        None,
        Flag(),
        "Pin the calling thread, for the length of the call, to a core that no worker has. None: pins it too, "
        "unless a thread inflates the file and only one such core is left.\nThat thread would have to share a "
        "worker's core.",
    ]
    speed: Annotated[
        float,
        0.0,
        Text("FACTOR"),
        "1 replays as recorded by ``ts_recv``, 10 is ten times as fast, 0 is as fast as possible.",
    ]
    pacer: Annotated[
        "Pacer | None", None, "In place of ``speed``, a ``Pacer``, which can be paused and stepped during the replay."
    ]
    fingerprint_every: Annotated[
        int | None,
        None,
        Whole(1),
        "Every so many ticks, bring the run to rest and take fingerprints of it and of its input. None: at the end "
        "alone.\n``result.intervals`` has them.",
    ]
    fingerprints: Annotated[
        str | os.PathLike[str] | None,
        None,
        File("FILE"),
        "A file for the fingerprints of the run and of each symbol, for ``strand diff``.\nThe ending .gz compresses "
        "it.",
    ]
    out: Annotated[
        "Mapping[str, Destination] | None",
        None,
        Text("FILE|NAME=FILE"),
        'Files for outputs of the handlers, by name: ``{"bars": "bars.parquet"}``; or sinks of your own '
        '(``strand.Sink``).\nOther outputs are collected: ``result.outputs["bars"]``. If an error or an interrupt '
        "ends the run early, files hold what was final by then.",
    ]
    timeline: Annotated[bool, True, _FLAG, "Sample counters during the run: ``result.timeline``."]
    watch: Annotated[
        int | Sequence[str] | None, None, "Symbols whose rows are sampled too: names, or how many of the busiest."
    ]
    per_day: Annotated[
        bool,
        False,
        _FLAG,
        "Start all rows anew on each day, and report the rows of each day.\nAt the end of each day "
        "(docs/feeds/days.md) the run is at rest, and its symbols' rows move to ``result.days``. They begin again "
        "as zeros, so ``result.rows`` has the last day's.",
    ]
    snapshot: Annotated[
        "Snapshot | str | None",
        None,
        "A ``strand.snapshot``: values of all symbols at regular times, as ``result.snapshots``.\nAn interval such as "
        '``"1s"`` has all fields of the rows.',
    ]
    strict: Annotated[
        bool,
        False,
        _FLAG,
        "Treat warnings of the run as an error.\nStrictError is raised where ``result.warnings`` has any.",
    ]
    save: Annotated[
        str | os.PathLike[str] | None,
        None,
        File("FILE"),
        "A file for the state at the end. Ends of handlers do not run then.\nAn interrupted run saves its state too.",
    ]
    load: Annotated[
        str | os.PathLike[str] | None,
        None,
        File("FILE"),
        "A file of ``save`` to continue from, with the same source and options.\nTicks that were replayed before are "
        "read and skipped. ``ticks``, outputs and times of the result are of this call; rows and "
        "``ticks_by_symbol`` are of all calls.",
    ]
    until: Annotated[
        tuple[str, int] | str | int | None,
        None,
        Text("NUMBER|TIME"),
        "Where to stop.\nAll ticks up to there are handled, and rows are as they are then: ends of handlers do not "
        'run. ``("AAPL", 17)`` stops after the 17th tick of AAPL in this replay; of other symbols, it includes all '
        "ticks that come before it in the feed, and none after. A time, in the forms of ``start``, stops before the "
        "first tick with a later ``ts_recv``.",
    ]
    pdb: Annotated[
        bool,
        False,
        _FLAG,
        "Start Python's debugger where the handler is called with the tick of ``until``.\nIt needs ``workers=0``. A "
        "compiled function is called in Python first, on copies, and then as machine code.",
    ]


class ReplayOptions(RunOptions, Asked, total=False):
    """All that ``strand.replay`` takes by name, but for ``handlers``."""


#: The most symbols to be watched as the busiest.
MOST_WATCHED: Final = 16


def read_watch(watch: object) -> int | list[str] | None:
    """The symbols whose rows are sampled: names, each once, or how many of the busiest; None: none. Raises
    ConfigurationError."""
    if watch is None:
        return None
    if is_whole(watch) and 0 <= watch <= MOST_WATCHED:
        return int(watch) or None
    if isinstance(watch, Sequence) and not isinstance(watch, str) and all(isinstance(name, str) for name in watch):
        return list(dict.fromkeys(watch)) or None
    raise ConfigurationError(
        "watch", f"{shown(watch)} is neither a list of symbols' names nor a number from 1 to {MOST_WATCHED}"
    )


def asked_of(given: ReplayOptions) -> ReplayOptions:
    """The options, with what is kept of those of ``Asked`` and their defaults. Raises ConfigurationError."""
    return cast(ReplayOptions, read_given(Asked, given))


def selection(asked: Asked) -> dict[str, Any]:
    """The choice of the source's ticks."""
    return {"symbols": list(asked["symbols"] or ()) or None, "start": asked["start"], "end": asked["end"]}


def records(asked: Asked) -> bool:
    """Tells whether fingerprints are taken as the run goes on."""
    return asked["fingerprint_every"] is not None or asked["fingerprints"] is not None


def writes(asked: Asked) -> bool:
    """Tells whether a file or a sink may be written to."""
    return any(given is not None for given in (asked["out"], asked["fingerprints"], asked["save"]))
