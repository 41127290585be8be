"""Bad values for every option of every public call, and how each is refused.

    .venv/bin/python tests/support/bad_values.py           shows what differs from tests/contract/refusals.json
    .venv/bin/python tests/support/bad_values.py --write   writes it, for a review with git diff

A call takes a value, or raises an error of a class that names the option. The wording is no part of it.
"""

from __future__ import annotations

import inspect
import json
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from small_files import FILES, options_of

import strand
from strand import feeds, testing, units
from strand.errors import StrandError
from strand.feeds.write.conversion import convert

PATH = Path(__file__).resolve().parents[1] / "contract" / "refusals.json"
TAKEN = "taken"
DEFAULT = "default"
#: Seconds that a value may take: it is refused, or the run is over.
LIMIT_S = 20

VALUES: Mapping[str, Any] = {
    "None": None, "True": True, "0": 0, "-1": -1, "2": 2, "2**70": 2**70, "1.5": 1.5, "nan": float("nan"),
    "empty text": "", "text": "no such", "bytes": b"x", "empty list": [], "list": ["no such"], "dict": {"no such": 1},
    "empty dict": {}, "object": object(), "inf": float("inf"), "numpy.True_": np.True_, "numpy.int64": np.int64(2),
    "null": "a\0b", "5000 digits": 5000 * "9",
}  # fmt: skip


def names(error: BaseException, option: str) -> bool:
    """Tells whether an error names the option it is about.

    The text says it today; ``field``, where an error has it, says more.
    """
    path = getattr(error, "field", ())
    return option in ((path,) if isinstance(path, str) else path) or bool(re.search(rf"\b{option}\b", str(error)))


@dataclass(frozen=True)
class Call:
    """A public call: ``call(**options)`` with one bad value beside ``base``, and the options that are not tried."""

    call: Callable[..., Any]
    base: Mapping[str, Any] = field(default_factory=dict)
    but: tuple[str, ...] = ()
    signature: Callable[..., Any] | None = None

    def defaults(self) -> dict[str, str]:
        """The defaults that are plain values, by option."""
        plain = (bool, int, float, str, type(None))
        parameters = inspect.signature(self.signature or self.call).parameters
        return {
            name: repr(parameters[name].default)
            for name in self.options()
            if isinstance(parameters[name].default, plain)
        }

    def options(self) -> list[str]:
        """The names of the options."""
        parameters = inspect.signature(self.signature or self.call).parameters.values()
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
        return [p.name for p in parameters if p.kind not in kinds and p.name not in self.but and p.name != "self"]


TICKS = [("A", 1_000_000_000, 1.25, 3), ("B", 2_000_000_000, 2.5, 4)]


def _feed() -> Any:
    return testing.feed(TICKS)


def _dispatcher(**options: Any) -> None:
    given = {"symbols": ["A", "B"], "handler": "count"} | options
    with strand.Dispatcher(given.pop("symbols"), given.pop("handler"), **given):
        pass


def _listed(**options: Any) -> None:
    given = {"records": TICKS} | options
    testing.feed(given.pop("records"), **given)


def _scheduler(**options: Any) -> None:
    strand.Scheduler(**options).shutdown()


def _napoleon(**options: Any) -> None:
    strand.napoleon(**options).shutdown()


def _open(file: str, **options: Any) -> None:
    with feeds.open(file, **options) as feed:
        for _ in feed.batches():
            pass


def _task_options(**options: Any) -> None:
    with strand.Scheduler(workers=1) as scheduler:
        scheduler.options(**options)


def _converts(source: str, **options: Any) -> None:
    convert(source, "converted.npz", **{"limit": 10, **options})


def _joins(join: Callable[..., Any], **times: Any) -> Callable[..., Any]:
    return lambda **options: join(_feed(), {"symbol": ["A"], **times}, **{"workers": 1, **options})


def _decorates(decorator: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **options: decorator(**options)(function)


def _on_tick(row: Any, tick: Any) -> None:
    """Do nothing."""


def _on_ticks(symbol: Any, ticks: Any, row: Any) -> None:
    """Do nothing."""


def _on_basket(tick: Any, basket: Any) -> None:
    """Do nothing."""


#: A handler with a parameter, and one set for it.
SETS = {
    "handler": strand.batch_handler(state=[("n", "i8")], params=[("least", "i8")])(_on_ticks),
    "params": [{"least": 1}],
}
#: What has to be given of a built-in handler.
LENGTHS: Mapping[str, Any] = {
    "bars": {"every": "1m"}, "quote_bars": {"every": "1m"}, "imbalance_bars": {"expected_ticks": 100},
    "volatility": {"step": "1m"},
}  # fmt: skip


class _Object:
    def on_tick(self, tick: Any) -> None:
        """Do nothing."""


STATE = {"state": [("n", "i8")]}
#: Options of runs that a bad value would only make slow, or that are for a terminal.
SLOW = ("speed", "pacer", "pdb")
#: What the machine decides.
MACHINE = ("cores",)


#: Files whose readers' options are tried.
OPENED = ("itch", "csv of one's own", "parquet", "dbn of orders", "npy of one's own", "json lines", "lean of trades")


def _opens(folder: Path, name: str) -> Call:
    """The options of a file's reader; a value takes the place of one that the file needs."""
    (file,) = (file for file in FILES if file.name == name)
    (folder / name).mkdir(exist_ok=True)
    path = str(file.write(folder / name))
    return Call(partial(_open, path), options_of(file, folder / name), ("path_or_paths",), feeds.open)


def calls(folder: Path) -> dict[str, Call]:
    """Every public call with options. ``folder``: for the files that are opened."""
    sample = str(FILES[0].write(folder))
    built_in = (
        "bars",
        "bbo",
        "book",
        "depth",
        "imbalance",
        "imbalance_bars",
        "quote_bars",
        "spread",
        "trade_stats",
        "trades",
        "volatility",
        "vwap",
    )
    return {
        **{f"strand.{name}": Call(getattr(strand, name), LENGTHS.get(name, {})) for name in built_in},
        "strand.replay": Call(
            lambda **options: strand.replay(**({"source": _feed(), "handler": "count", "workers": 1} | options)),
            but=("source", *SLOW, *MACHINE), signature=strand.replay,
        ),
        "strand.Dispatcher": Call(
            _dispatcher, {"workers": 1, "cores": None}, ("symbols", *MACHINE), signature=strand.Dispatcher
        ),
        "strand.Scheduler": Call(_scheduler, {"workers": 1}, signature=strand.Scheduler),
        "strand.napoleon": Call(_napoleon, {"workers": 1}, signature=strand.napoleon),
        "strand.sweep": Call(
            lambda **options: strand.sweep(**({"files": sample, "workers": 1, **SETS} | options)),
            but=("files",), signature=strand.sweep,
        ),
        **{f"strand.feeds.open of {name}": _opens(folder, name) for name in OPENED},
        "convert": Call(partial(_converts, sample), but=("source", "path"), signature=convert),
        "strand.asof": Call(_joins(strand.asof, time=[1]), but=("source", "events", *SLOW), signature=strand.asof),
        "strand.between": Call(
            _joins(strand.between, start=[1], end=[9]), but=("source", "orders", *SLOW), signature=strand.between
        ),
        "strand.testing.seeded": Call(
            lambda **options: testing.seeded(_feed(), "count", **({"seed": 1} | options)),
            but=("source", "handler", *SLOW, *MACHINE), signature=testing.seeded,
        ),
        "strand.handler": Call(_decorates(strand.handler, _on_tick), STATE, ("on_wake", "on_finish"), strand.handler),
        "strand.batch_handler": Call(_decorates(strand.batch_handler, _on_ticks), STATE, (), strand.batch_handler),
        "strand.object_handler": Call(_decorates(strand.object_handler, _Object), {}, (), strand.object_handler),
        "strand.basket_handler": Call(
            _decorates(strand.basket_handler, _on_basket), {"baskets": {"p": ["A"]}, "basket_state": [("n", "i8")]}, (),
            strand.basket_handler,
        ),
        "strand.native": Call(lambda **options: strand.native(**({"source": 4096, "state": [("n", "i8")]} | options)),
                              but=("source",), signature=strand.native),
        "strand.snapshot": Call(strand.snapshot, {"every": "1s", "fields": ["ticks"]}),
        **{
            f"strand.{name}": Call(getattr(strand, name))
            for name in ("Levels", "Aging", "Fair", "Guard", "Limits", "RetryPolicy", "Inverse")
        },
        "strand.Pool": Call(strand.Pool, {"workers": 3}, MACHINE),
        "strand.Sessions.daily": Call(strand.Sessions.daily, {"hours": "09:30-16:00", "zone": "America/New_York"}),
        "strand.Sessions.calendar": Call(strand.Sessions.calendar, {"name": "XNYS"}),
        "strand.Sessions": Call(strand.Sessions, {"table": [[1, 2]]}, ("table",)),
        "Scheduler.options": Call(_task_options, signature=strand.Scheduler.options),
        "strand.feeds.InflateLimits": Call(feeds.InflateLimits),
        "strand.feeds.Flags": Call(feeds.Flags),
        "strand.testing.feed": Call(_listed, signature=testing.feed),
        "strand.testing.Clock": Call(testing.Clock),
        "strand.units.declare": Call(units.declare, {"like": units.PRICE}),
        "Dispatcher.publish": Call(_method("publish"), {"records": strand.ticks.zeros(1)}, (),
                                   strand.Dispatcher.publish),
        "Dispatcher.call": Call(_method("call"), {"symbol": "A", "fn": _answer}, (), strand.Dispatcher.call),
        "Dispatcher.drain": Call(_method("drain"), {}, (), strand.Dispatcher.drain),
        "Dispatcher.inspect": Call(_method("inspect"), {"symbol": "A"}, (), strand.Dispatcher.inspect),
        "Dispatcher.pause": Call(_method("pause"), {"symbol": "A"}, (), strand.Dispatcher.pause),
        "Dispatcher.release": Call(_method("release"), {"symbol": "A"}, (), strand.Dispatcher.release),
        "Handler.with_params": Call(strand.batch_handler(**STATE, params=[("least", "i8")])(_on_ticks).with_params),
    }  # fmt: skip


def _answer(view: Any) -> int:
    return int(view.index)


def _method(name: str) -> Callable[..., Any]:
    def call(**options: Any) -> None:
        with strand.Dispatcher(["A", "B"], "count", workers=1, cores=None) as dispatcher:
            getattr(dispatcher, name)(**options)

    return call


def ended(call: Call, option: str, value: Any) -> str:
    """End of a call: ``taken``, or the error's class, and ``names it`` if the error names the option.

    Files that a call makes by the name of a value come into the current folder.
    """

    def late(*_: object) -> None:
        raise TimeoutError(f"took longer than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call.call(**{**call.base, option: value})
    except StrandError as error:
        return f"{type(error).__name__}{' names it' if names(error, option) else ''}"
    except Exception as error:
        return f"other {type(error).__name__}{' names it' if names(error, option) else ''}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return TAKEN


def of_call(call: Call) -> dict[str, dict[str, str]]:
    """For each option, how each value ended: values by ending."""
    found, defaults = {}, call.defaults()
    for option in call.options():
        ends: dict[str, list[str]] = {}
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for label, value in VALUES.items():
                ends.setdefault(ended(call, option, value), []).append(label)
        found[option] = {end: ", ".join(labels) for end, labels in sorted(ends.items())}
        if option in defaults:
            found[option][DEFAULT] = defaults[option]
    return found


def main() -> None:
    old = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = {name: of_call(call) for name, call in calls(Path(folder)).items()}
    for name in sorted({*old, *found}):
        for option in sorted({*old.get(name, {}), *found.get(name, {})}):
            if old.get(name, {}).get(option) != found.get(name, {}).get(option):
                sys.stdout.write(
                    f"{name}({option}): {old.get(name, {}).get(option)} -> {found.get(name, {}).get(option)}\n"
                )
    if "--write" in sys.argv:
        PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
