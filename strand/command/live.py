"""``strand listen``, ``serve``, ``http`` and ``dashboard``: a handler on a live feed, a recorded file sent as one,
requests, and the page of a run."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape

from strand.alerts.watch import Alerts, Samples
from strand.brief import several
from strand.command.dispatchers import MONITORING, NAME
from strand.command.ending import ended_by
from strand.command.parameters import (
    SECTIONS,
    SYMBOLS,
    Reads,
    SectionedCommand,
    declared,
    json_option,
    logging_to_standard_error,
    names,
    progress,
    ranged,
    reading,
    say,
    show,
    source_of,
    values_of,
)
from strand.command.run_options import handling, paced, running
from strand.command.run_options import workers as add_workers
from strand.command.showing import Results, resulting
from strand.config.configuration import Config
from strand.errors import ConfigurationError
from strand.feeds import open as open_feed
from strand.feeds.formats.options import JsonLinesOptions
from strand.feeds.io.files import small_text
from strand.feeds.live.join import JoinedFeed, join
from strand.feeds.live.kafka import KafkaFeed
from strand.feeds.live.mold import Faults, MoldFeed, ServeOptions
from strand.feeds.live.mold import serve as run_serve
from strand.feeds.live.websocket import WebSocketFeed
from strand.feeds.write.destinations import check_outputs
from strand.handlers import Handler, chain
from strand.handlers.loading import working_directory_first
from strand.http.options import ServerOptions
from strand.lazy import imported
from strand.metrics import Readings
from strand.options import File, options_in
from strand.outside.attached import attach
from strand.policies.policy import LEVELS, Levels
from strand.replaying.pacing import Pacer
from strand.replaying.replay import follow, replay
from strand.replaying.result import ReplayResult
from strand.report.quantities import duration
from strand.report.tables import numbers_table
from strand.tasks.scheduler import Scheduler, config_of

if TYPE_CHECKING:
    from strand.alerts.rules import Rule
    from strand.http.app import App
    from strand.http.dashboard import Dashboard
    from strand.tasks.tasks import Tasks

#: A feed of ``strand listen``.
LiveFeed = MoldFeed | WebSocketFeed | KafkaFeed | JoinedFeed

_LINE_COUNTS: Final = (
    ("messages", "messages"), ("taken", "first"), ("duplicates", "duplicates"), ("lost", "gap_messages"),
    ("in gaps", "gap_count"), ("late", "late"), ("not wanted", "unwanted"), ("heartbeats", "heartbeats"),
    ("malformed", "malformed"), ("jumps", "jumps"), ("kernel drops", "kernel_drops"),
)  # fmt: skip
# Ranges shown to people; --json has them all.
_SHOWN: Final = 10
_OF_LINES: Final = options_in(MoldFeed)
_OF_WEBSOCKET: Final = options_in(WebSocketFeed)
_PROFILE: Final = replace(
    options_in(JsonLinesOptions)["profile"],
    kind=File("FILE"),
    text="For --websocket and --kafka: the .toml file that describes the messages.",
    unset="",
)
_OF_KAFKA: Final = options_in(KafkaFeed)
#: Options that are for one kind of feed alone, by the option that chooses the kind.
_ALONE: Final = {
    "--line": [*_OF_LINES.keys() - _OF_WEBSOCKET.keys()],
    "--websocket": ["subscribe", "client"],
    "--kafka": [
        "consumer_group", "share", "begin", "on_gone", "on_moved", "duplicates", "until_end", "wait_s", "commit_s",
    ],
}  # fmt: skip
_LISTEN_SECTIONS: Final = {
    "Feed": (
        "--line", "--group", "--interface", "--rerequest", "--websocket", "--profile", "--subscribe", "--record",
        "--after", "--clock-s", "--max-seconds", "--max-messages", "--idle-timeout-s",
    ),
    "Kafka": (
        "--kafka", "--topic", "--partition", "--consumer-group", "--share", "--begin", "--until-end", "--on-gone",
        "--on-moved", "--duplicates", "--wait-s", "--commit-s", "--kafka-config", "--state", "--every-s",
    ),
    "Handler": ("--handler", "--set"),
    "Output": SECTIONS["Output"],
    "Input": ("--symbols", "--date", "--on-bad-record"),
    "Sessions and gaps": (
        "--session", "--first-sequence", "--gap-timeout-s", "--jump-window", "--on-gap", "--receive-bytes",
    ),
    "Log": ("--log-format", "--log-level"),
}  # fmt: skip


def _of_feeds(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of all feeds, as one argument ``feed``: the feed that they make."""
    subscribe = _OF_WEBSOCKET["subscribe"]
    options = {
        "subscribe": replace(
            subscribe, text=f"For --websocket: {subscribe.text[0].lower()}{subscribe.text[1:]} Repeatable."
        ),
        **_OF_LINES,
        **{name: _OF_KAFKA[name] for name in _ALONE["--kafka"]},
    }
    options["group"] = replace(options["group"], text=f"{options['group'].text} Give it twice for A and B.")
    del options["request_after_s"]

    @click.option(
        "--line",
        multiple=True,
        metavar="HOST:PORT",
        help="Address of a line. Give it twice for A and B. Port 0 is any free port.",
    )
    @click.option("--websocket", metavar="URL", help="Receive JSON messages of a WebSocket instead, ws:// or wss://.")
    @click.option("--kafka", metavar="HOST:PORT", help="Receive messages of Kafka topics instead, from these brokers.")
    @click.option("--topic", multiple=True, metavar="NAME", help="For --kafka: a topic. Repeatable.")
    @click.option(
        "--partition",
        "partitions",
        type=click.IntRange(0),
        multiple=True,
        metavar="N",
        help="For --kafka: a partition of each topic to read. Repeatable. [default: all]",
    )
    @click.option(
        "--kafka-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="For --kafka: a .toml file of further settings of librdkafka, as for TLS and passwords.",
    )
    @declared(_PROFILE)
    @click.option(
        "--after",
        multiple=True,
        type=click.Path(),
        metavar="FILE",
        help="Play this recording at full speed first, and go on with the feed where it ends. Repeatable.",
    )
    @wraps(command)
    def with_feed(
        *,
        line: tuple[str, ...],
        websocket: str | None,
        kafka: str | None,
        topic: tuple[str, ...],
        partitions: tuple[int, ...],
        kafka_config: Path | None,
        profile: str | None,
        after: tuple[str, ...],
        **others: Any,
    ) -> None:
        given = values_of(options.values(), {name: others.pop(name) for name in options})
        chosen = [flag for flag, value in (("--line", line), ("--websocket", websocket), ("--kafka", kafka)) if value]
        if len(chosen) != 1:
            raise click.UsageError("give --line, once or twice, --websocket or --kafka")
        for kind, alone in _ALONE.items():
            if kind != chosen[0] and (other := [options[name].flag for name in alone if name in given]):
                raise click.UsageError(f"{other[0]} is for {kind}, not for {chosen[0]}")
        feed: LiveFeed
        if kafka is not None:
            if other := [options[name].flag for name in given if name not in _OF_KAFKA]:
                raise click.UsageError(f"{other[0]} is not for --kafka")
            if not topic:
                raise click.UsageError("--kafka needs --topic, the topic to read")
            config = None if kafka_config is None else _settings(kafka_config)
            feed = KafkaFeed(kafka, topic, profile, config=config, partitions=partitions, **given)
        elif topic or partitions or kafka_config:
            which = "--topic" if topic else "--partition" if partitions else "--kafka-config"
            raise click.UsageError(f"{which} is for --kafka, not for {chosen[0]}")
        elif websocket is None:
            on_late = None if after else lambda first: say(f"warning: {_joined(first)}")
            feed = MoldFeed(*line, on_late=on_late, **given)
        elif profile is None:
            raise click.UsageError("--websocket needs --profile, the file that describes the messages")
        else:
            feed = WebSocketFeed(websocket, profile, **given)
        command(feed=join(list(after), feed) if after else feed, **others)

    found: Callable[..., None] = with_feed
    for name, option in reversed(options.items()):
        found = declared(option, multiple=name in ("subscribe", "group"))(found)
    return found


def _settings(path: Path) -> dict[str, Any]:
    """Settings of librdkafka, whose names have dots. Raises ConfigurationError."""
    import tomllib

    def flat(table: dict[str, Any], before: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in table.items():
            found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
        return found

    try:
        return flat(tomllib.loads(small_text(path, "kafka_config")), "")
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError("kafka_config", f"{path} is not TOML: {error}") from error


@click.command("listen", cls=SectionedCommand, sections=_LISTEN_SECTIONS)
@handling
@declared(SYMBOLS, metavar="NAMES")
@add_workers(1)
@running
@resulting
@logging_to_standard_error
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For --kafka: run in parts, as strand.follow does, and go on from this file, which each part replaces.",
)
@click.option(
    "--every-s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="With --state: the length of a part. [default: 10]",
)
@_of_feeds  # last: the feed is made when all else is known to be right
def listen(
    feed: LiveFeed,
    symbols: str | None,
    handler: Handler,
    run: dict[str, Any],
    results: Results,
    state: Path | None,
    every_s: float | None,
) -> None:
    """Run a handler on a live feed: NASDAQ ITCH 5.0 over MoldUDP64, on one line or on two that carry the same messages.

    With --websocket and --profile, the feed is JSON messages from a WebSocket, with --kafka messages of Kafka topics.

    The run ends with the session, at --max-seconds, --max-messages or --idle-timeout-s, or at an interrupt. It then
    shows the rows as replay does, what each line received and missed, and which messages were missing on both.
    """
    wanted, record = names(symbols), next(iter(feed.writes), None)
    line = feed.live if isinstance(feed, JoinedFeed) else feed
    if state is None and every_s is not None:
        raise click.UsageError("--every-s needs --state")
    if state is not None and wanted is not None:
        raise click.UsageError("--symbols does not go with --state")
    results.check(handler, feed)
    check_outputs(results.files, feed, symbols=wanted)

    def listened() -> ReplayResult:
        with ended_by(feed.stop):  # what came is handled and reported
            if isinstance(line, MoldFeed):
                for warning in line.warnings:
                    say(f"warning: {warning}")
                say("listening at " + ", ".join(map(str, line.addresses)))
            chosen = {**run, **results.options, "timeline": True}
            if state is not None:
                return follow(feed, handler, state=state, every_s=10.0 if every_s is None else every_s, **chosen)
            # The report says it where nothing came.
            return replay(feed, handler, symbols=wanted, allow_empty=True, **chosen)

    def more() -> dict[str, Any]:
        joined = {"joined": feed.report()} if isinstance(feed, JoinedFeed) else {}
        return {"live": line.report(), "record": record, **joined}

    results.of(listened, wanted, more=more, after=lambda: _print_feed(feed, record))


def _joined(first: int) -> str:
    return (
        f"the first message received is number {first:,}; the {first - 1:,} before it, which include names of symbols, "
        "were not requested; with --first-sequence 1 they are requested, or count as missing"
    )


def _print_feed(feed: LiveFeed, record: str | None) -> None:
    """Prints the report of the lines, or of the connection, and the path of the recording."""
    from strand.report.tables import TerminalConsole

    console, before = TerminalConsole(), {}
    if isinstance(feed, JoinedFeed):
        _print_joined(console, feed.report())
        feed, before = feed.live, {"joined_at": None}  # the recording had what came before
    live = {**feed.report(), **before}
    if isinstance(feed, MoldFeed):
        _print_lines(console, live)
    elif isinstance(feed, KafkaFeed):
        _print_topics(console, live, feed.info.path)
    else:
        _print_events(console, live, feed.info.path)
    if record is not None:
        console.print(f"recorded to {record}; strand replay {record} gives the same ticks", markup=False)


def _print_joined(console: Console, joined: dict[str, Any]) -> None:
    console.print(
        f"{escape(joined['recorded'])}: [bold]{joined['recorded_ticks']:,}[/] ticks, then "
        f"[bold]{joined['live_ticks']:,}[/] of the line; {joined['repeated_ticks']:,} of the line were in the recording"
    )
    _print_gaps(console, "missing in both", joined["gaps"])


def _print_gaps(console: Console, what: str, gaps: Sequence[tuple[int, int]]) -> None:
    if gaps:
        shown = ", ".join(f"{low:,}" if end == low + 1 else f"{low:,}-{end - 1:,}" for low, end in gaps[:_SHOWN])
        rest = f" and {len(gaps) - _SHOWN:,} more ranges" if len(gaps) > _SHOWN else ""
        console.print(f"[yellow]{what}:[/] {shown}{rest}")


def _print_events(console: Console, live: dict[str, Any], where: str) -> None:
    console.print(
        f"{escape(where)}: [bold]{live['messages']:,}[/] messages, {live['other_messages']:,} of them of a kind that "
        f"the profile does not know; connected {live['connected']:,} times; {live['gap_messages']:,} messages "
        f"missing in "
        f"{live['gap']:,} gaps"
    )
    _print_newest(console, live)


def _print_newest(console: Console, live: dict[str, Any]) -> None:
    for event in live["events"][-_SHOWN:]:
        console.print(f"  {event['kind']}: {event['text']}", markup=False)


def _print_topics(console: Console, live: dict[str, Any], where: str) -> None:
    console.print(
        f"{escape(where)}: [bold]{live['messages']:,}[/] messages, {live['duplicates']:,} repeated; "
        f"{live['gone_messages']:,} messages gone in {live['gaps']:,} gaps"
    )
    for topic, offsets in live["offsets"].items():
        committed = live["committed"].get(topic, {})
        for partition, offset in offsets.items():
            said = f", {committed[partition]:,} committed" if partition in committed else ""
            console.print(f"  {topic}, partition {partition}: next offset {offset:,}{said}", markup=False)
    _print_newest(console, live)


def _print_lines(console: Console, live: dict[str, Any]) -> None:
    console.print(
        f"session {escape(live['session'] or 'not received')}: [bold]{live['delivered']:,}[/] messages in order, "
        f"{live['gap_messages']:,} missing on every line, {live['requests']:,} requests for "
        f"{live['requested_messages']:,} messages"
    )
    if live["joined_at"] is not None:
        console.print(f"[yellow]{_joined(live['joined_at'])}[/]")
    # A row a count: as a column each, the numbers would not fit a terminal's width.
    lines = live["lines"]
    table = numbers_table("line", *lines)
    for words, key in _LINE_COUNTS:
        of_gaps = key in ("gap_messages", "gap_count")
        cells = ("" if of_gaps and name not in live["line_gaps"] else f"{line[key]:,}" for name, line in lines.items())
        table.add_row(words, *cells)
    console.print(table)
    if live["latency_ns"]:
        console.print(
            "receipt to delivery: " + ", ".join(f"{name} {duration(ns)}" for name, ns in live["latency_ns"].items())
        )
    _print_gaps(console, "missing on every line", live["gaps"])
    for at, what in (
        ("forced", "gaps were given up early for lack of space"),
        ("gaps_unlisted", "gaps are counted but not listed"),
    ):
        if live[at]:
            console.print(f"[yellow]{live[at]:,} {what}[/]")


_SERVE_SECTIONS: Final = {
    "Lines": ("--line", "--rerequest", "--interface", "--allow-remote"),
    "Pace": ("--speed", "--rate"),
    "Faults": ("--loss", "--reorder", "--duplicate", "--seed"),
    "Session": ("--session", "--packet-bytes", "--linger-s"),
}
#: Options that each line has its own of.
_BY_LINE: Final = ("line", "loss", "reorder", "duplicate")


def _sending(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of ``ServeOptions`` and ``Faults``. Those of a line may be given twice."""
    for option in reversed([*options_in(ServeOptions).values(), *options_in(Faults).values()]):
        if option.name in _BY_LINE:
            twice = replace(option, text=f"{option.text} Give it twice for A and B.", default=None)
            command = declared(twice, multiple=True, required=option.name == "line")(command)
        elif option.flag:
            command = declared(option)(command)
    return command


@click.command("serve", cls=SectionedCommand, sections=_SERVE_SECTIONS)
@click.argument("file", type=click.Path(path_type=Path))
@_sending
@json_option()
def serve(
    file: Path, loss: tuple[float, ...], reorder: tuple[float, ...], duplicate: tuple[float, ...], as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Send an ITCH 5.0 FILE, compressed or not, over MoldUDP64 on one line or two, with losses and disorder on demand.

    The session ends with the file. An interrupt ends it early; the report is printed in both cases.
    """
    shares = [_by_line(name, given) for name, given in (("loss", loss), ("reorder", reorder), ("duplicate", duplicate))]
    faults = Faults(*(share[0] for share in shares)), Faults(*(share[1] for share in shares))
    options = ServeOptions(faults=faults, **values_of(options_in(ServeOptions).values(), given))
    # No event: a second interrupt may come while the first one holds its lock.
    interrupts: list[None] = []
    with progress("serving", None, as_json) as advance, ended_by(lambda: interrupts.append(None)):
        sent = run_serve(file, options, stop=lambda: bool(interrupts), progress=advance)
    show(as_json, sent, lambda console: _print_sent(console, sent))


def _by_line(name: str, given: tuple[float, ...]) -> tuple[float, float]:
    if len(given) > 2:
        raise ConfigurationError(name, f"given {len(given)} times, but there are at most two lines")
    return (given[0], given[-1]) if given else (0.0, 0.0)


def _print_sent(console: Console, sent: dict[str, Any]) -> None:
    console.print(
        f"[bold]{escape(sent['path'])}[/], session {escape(sent['session'])}: [bold]{sent['messages']:,}[/] messages "
        f"in {sent['packets']:,} packets, {sent['seconds']:.3f} s, "
        f"[bold]{sent['messages'] / max(sent['seconds'], 1e-9):,.0f} messages/s[/]"
    )
    table = numbers_table("line", "packets sent", "lost", "kept back", "sent twice", "messages lost", "in ranges")
    for name, line in sent["lines"].items():
        table.add_row(
            name, f"{line['packets']:,}", f"{line['lost_packets']:,}", f"{line['reordered_packets']:,}",
            f"{line['duplicated_packets']:,}", f"{line['lost_messages']:,}", f"{len(line['lost_ranges']):,}",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"{sent['requests']:,} requests, {sent['answered']:,} answered with {sent['answered_messages']:,} messages, "
        f"{sent['unanswerable']:,} unanswerable; {several(sent['heartbeats'], 'heartbeat')}"
    )


_OF_SERVERS: Final = options_in(ServerOptions)
_WORKERS: Final = replace(
    options_in(Scheduler)["workers"],
    text="Give a strand.http.App without a scheduler one with N workers; 0: as many as cores.",
    unset="no scheduler",
)
_MAX_QUEUE: Final = replace(
    options_in(Scheduler)["max_queue"],
    text="With --workers: how many requests of each level may wait; a further one gets 429.",
    default=1000,
)
_HTTP_SECTIONS: Final = {
    "Server": ("--host", "--port", "--token-file", "--stop-timeout"),
    "Scheduler": ("--workers", "--max-queue", "--config", "--control"),
    "Bounds": ("--max-connections", "--max-head-bytes", "--head-timeout", "--switch-interval"),
    "Log": ("--log-format", "--log-level"),
}


def _of_servers(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of the server, as one argument ``given``: those that were given, by name."""

    @wraps(command)
    def with_options(**others: Any) -> None:
        values = {name: others.pop(name) for name in _OF_SERVERS}
        command(given=values_of(_OF_SERVERS.values(), values), **others)

    found: Callable[..., None] = with_options
    for option in reversed(list(_OF_SERVERS.values())):
        found = declared(option)(found)
    return found


@click.command("http", cls=SectionedCommand, sections=_HTTP_SECTIONS)
@click.argument("application", metavar="MODULE:APP")
@_of_servers
@ranged(_WORKERS, 0, 1024)
@ranged(_MAX_QUEUE, 1)
@click.option(
    "--config", type=click.Path(), metavar="FILE", help="Options of that scheduler, as strand.Config has them."
)
@click.option(
    "--control", is_flag=True, help="Show and change tasks at /control. It needs --token-file and a scheduler."
)
@logging_to_standard_error
@json_option(text="Print the counts of the run as one JSON object in the end")
def http(
    application: str,
    given: dict[str, Any],
    workers: int | None,
    max_queue: int | None,
    config: str | None,
    control: bool,
    as_json: bool,
) -> None:
    """Serve an ASGI application: a strand.http.App, whose requests are tasks, or another one.

    It runs in one process. SIGTERM or Ctrl-C ends it when all requests that it has accepted are answered. SIGHUP makes
    it read the token again.
    """
    for package in ("starlette", "uvicorn"):
        imported(package, "http", "strand http")
    from strand.http.app import App
    from strand.http.serving import serve as serve_app

    options = ServerOptions(**given)
    app = _load(application)
    if workers is not None or config is not None:
        if not isinstance(app, App) or app.scheduler is not None:
            what = "has a scheduler of its own" if isinstance(app, App) else "is no strand.http.App"
            raise ConfigurationError("workers", f"{application} {what}: leave out --workers and --config")
        app.scheduler = _scheduler(workers, max_queue, config)
    scheduler = app.scheduler if isinstance(app, App) else None
    if control:
        _mount_control(app, scheduler, options)
    # The server has ended by the signal, which comes once more then.
    with _watching(scheduler, config), ended_by(lambda: None):
        cut = serve_app(app, options, started=lambda url: say(f"listening at {url}"))
        left = 0
        if scheduler is not None:
            try:
                scheduler.shutdown(cancel_futures=cut > 0, timeout=1 if cut else options.stop_timeout_s)
            except TimeoutError:
                left = scheduler.statistics().pending
    if as_json:
        click.echo(json.dumps({"cut_off": cut, "tasks_left": left} | (_counts(app) if isinstance(app, App) else {})))
    if cut or left:
        click.echo(f"strand: stop_timeout is over: {cut:,} requests were cut off, {left:,} tasks still ran", err=True)
        sys.stdout.flush()
        os._exit(1)  # Python would wait for threads that run those tasks


_DASHBOARD_SECTIONS: Final = {
    "Run": ("--name", "--config"),
    "Replay": ("--replay", "--speed", "--paused", "--workers"),
    "Handler": ("--handler", "--set"),
    "Server": ("--host", "--port", "--token-file", "--stop-timeout"),
    "Bounds": ("--max-connections", "--max-head-bytes", "--head-timeout", "--switch-interval"),
    "Log": ("--log-format", "--log-level"),
}
#: Options of its command that a run of another process takes too.
_OF_ANY: Final = frozenset(("pid", "name", "config", "log_format", "log_level", *_OF_SERVERS))
_USUAL: Final = "the books and trades of the feed"


@click.command("dashboard", cls=SectionedCommand, sections=_DASHBOARD_SECTIONS)
@click.argument("pid", type=click.IntRange(1), required=False)
@NAME
@click.option(
    "--replay",
    "files",
    multiple=True,
    type=click.Path(exists=True),
    metavar="FILE",
    help="In place of PID: replay this file at a pace that the page controls. Repeatable.",
)
@paced(1.0)
@click.option("--paused", is_flag=True, help="Begin paused, before the first tick.")
@add_workers(1)
@partial(handling, usual=_USUAL)
@reading
@MONITORING
@_of_servers
@logging_to_standard_error
def dashboard(
    pid: int | None,
    name: str | None,
    files: tuple[str, ...],
    handler: Handler | None,
    reads: Reads,
    config: str | None,
    given: dict[str, Any],
    **paced: Any,
) -> None:
    """Serve a live page of the run of process PID, or of a replay of FILE at a pace.

    The process has to have been started with --attachable, or with attachable=True. Ctrl-C ends it.
    """
    for package in ("starlette", "uvicorn"):
        imported(package, "http", "strand dashboard")
    from strand.http.access import LOCAL_HOSTS
    from strand.http.dashboard import Dashboard
    from strand.http.serving import serve as serve_app

    if (pid is None) == (not files):
        raise click.UsageError("give PID, a process to look at, or --replay FILE")
    context = click.get_current_context()
    if pid is not None:
        for param in context.command.params:
            asked = context.get_parameter_source(param.name or "") == ParameterSource.COMMANDLINE
            if asked and param.name not in _OF_ANY:
                raise click.UsageError(f"{param.opts[0]}: is for --replay, and PID runs already")
    options = ServerOptions(**given)
    # The browser gives the token to pages of this name alone.
    hosts = (*LOCAL_HOSTS, options.host) if options.token_file is None else ("*",)
    rules = (Config() if config is None else Config.load(config)).alerts
    if pid is None:
        pacer, workers = Pacer(paced["speed"], paused=paced["paused"]), paced["workers"]
        chosen = {**reads._asdict(), **({} if workers is None else {"workers": workers})}
        _replayed(files, handler, pacer, chosen, options, rules=rules, hosts=hosts)
        return
    attached = attach(pid, name=name)
    with Alerts(Readings(attached), rules) as alerts, ended_by(lambda: None):
        serve_app(Dashboard(attached, alerts=alerts, hosts=hosts), options, started=_tell_address)


def _tell_address(url: str) -> None:
    say(f"the page is at {url}/")


def _replayed(
    files: tuple[str, ...],
    handler: Handler | None,
    pacer: Pacer,
    chosen: dict[str, Any],
    options: ServerOptions,
    *,
    rules: Iterable[Rule],
    hosts: Collection[str],
) -> None:
    """Replays in this thread, as often as the page asks for it, and serves in another one, until an interrupt."""
    from strand.http.dashboard import Dashboard, Tape
    from strand.http.serving import served

    is_again = threading.Event()

    def reset() -> bool:
        if is_again.is_set() or page.attached is None:
            return False
        is_again.set()
        interrupt_main()  # the replay ends as by Ctrl-C
        return True

    source, name = source_of(files), ", ".join(Path(file).name for file in files)
    if handler is None:
        handler = _usual_handler(source, chosen)
    emitted = dict(handler.emitted).get("trades")
    keeps = emitted is not None and {"price", "size", "aggressor"} <= {*(emitted.names or ())}
    # Where interrupts are ignored, as in the background of a script, none ends a replay.
    takes_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    page = Dashboard(reset=reset if takes_interrupts else None, hosts=hosts)

    def readings() -> Samples:
        return {} if page.attached is None else Readings(page.attached)()

    with Alerts(readings, rules) as alerts, served(page, options) as url:
        page.alerts = alerts
        _tell_address(url)
        while True:
            tape = Tape() if keeps else None
            page.pacer, page.tape = pacer, tape
            try:
                is_again.clear()
                replay(
                    source, handler, pacer=pacer, out=None if tape is None else {"trades": tape}, timeline=False,
                    progress=_Begun(page, name), attachable=True, name=name, **chosen,
                )  # fmt: skip
                threading.Event().wait()
            except KeyboardInterrupt:
                if not is_again.is_set():
                    return
                page.attached = None
                pacer = Pacer(pacer.speed, paused=pacer.paused)


class _Begun:
    """Progress of a replay that gives the page its run of this name, once that has begun."""

    def __init__(self, page: Dashboard, name: str) -> None:
        self._page, self._name = page, name

    def __call__(self, ticks: int) -> None:
        """Is told the number of ticks, which the page takes from the pacer."""

    def follow(self, _: Callable[[], int | None]) -> None:
        self._page.attached = attach(os.getpid(), name=self._name)


def _usual_handler(source: Any, chosen: dict[str, Any]) -> Handler:
    """The books and the trades of a feed. Raises what opening it raises."""
    selection = {name: chosen[name] for name in ("symbols", "start", "end") if chosen[name] is not None}
    with open_feed(source, **selection, **chosen["feed_options"]) as feed:
        are = feed.info.ticks
    return chain("book" if are in ("orders", "dbn-orders") else "depth", "trades")


def _mount_control(app: Any, scheduler: Tasks | None, options: ServerOptions) -> None:
    """Mounts the control interface, before all routes of the application. Raises ConfigurationError."""
    from starlette.routing import Mount

    from strand.http.access import LOCAL_HOSTS
    from strand.http.control import Control

    if scheduler is None:
        raise ConfigurationError("control", "there is no scheduler to control: give --workers, or an App that has one")
    if options.token_file is None:
        raise ConfigurationError("token_file", "--control needs a token: give --token-file")
    hosts = (*LOCAL_HOSTS, options.host)
    app.routes.insert(0, Mount("/control", Control(options.token_file, scheduler=scheduler, hosts=hosts)))


def _counts(app: App) -> dict[str, Any]:
    found = app.statistics()
    requests = [{"route": route, "status": status, "count": n} for (route, status), n in found.requests.items()]
    return {"requests": requests, "gone": found.gone, "dropped": found.dropped}


def _scheduler(workers: int | None, max_queue: int | None, config: str | None) -> Scheduler:
    """A scheduler whose levels have bounds of their own, where the file gives no bound and has levels."""
    read = Config() if config is None else config_of(config)
    max_queue = max_queue or _MAX_QUEUE.default
    said = read.scheduler_options()
    options: dict[str, Any] = {"config": config, "attachable": read.monitors}
    has_bound = said.get("max_queue") or said.get("max_queue_by_level")
    if has_bound:
        return Scheduler(workers or None, **options)
    if isinstance(said.get("policy") or Levels(), Levels):
        return Scheduler(workers or None, max_queue_by_level=dict.fromkeys(LEVELS, max_queue), **options)
    return Scheduler(workers or None, max_queue, **options)


def _watching(scheduler: Tasks | None, config: str | None) -> AbstractContextManager[object]:
    """Watches the scheduler of a file by its ``monitoring``, if it has that: alerts go to the log."""
    if config is None or not (read := config_of(config)).monitors:
        return nullcontext()
    from strand.alerts.watch import Alerts
    from strand.metrics import Readings

    assert isinstance(scheduler, Scheduler)  # the one of the file
    return Alerts(Readings(attach(fd=scheduler.memory_fd)), read.alerts, tasks=scheduler)


def _load(name: str) -> Any:
    """The application of a name. Raises ConfigurationError."""
    from uvicorn.importer import ImportFromStringError, import_from_string

    with working_directory_first():
        try:
            found = import_from_string(name)
        except ImportFromStringError as error:
            raise ConfigurationError("application", f"{error}: give MODULE:APP") from None
    if not callable(found):
        raise ConfigurationError("application", f"{name} is no ASGI application: it cannot be called")
    return found
