"""Messages of Kafka topics as ticks, and records of handlers as messages. Needs the extra ``kafka``.

A message is JSON that a profile describes (strand.feeds.formats.json.profile), or one record of ``strand.TICK`` or
more. The offset behind a message is committed when all of its ticks, and those of all messages before it, have been
handled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np

from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.feeds.formats.json.profile import JsonProfile, read_profile
from strand.feeds.formats.json.ticks import JsonTicks
from strand.feeds.live.consumer import SLICE_S, Brokers, Reader, StoppedError
from strand.feeds.live.messages import Counts, Ending, JsonMessages, Log, Owners, Records, Repeats
from strand.feeds.live.options import KafkaOptions
from strand.feeds.live.partitions import Messages, by_topic, named
from strand.lazy import imported
from strand.options import named_options
from strand.ticks import empty, picked
from strand.validate import mapping, several, whole

__all__ = ["KafkaFeed", "checked_servers"]

#: How long the last commit is tried, s.
_LAST_COMMIT_S: Final = 3.0
#: The name under which a profile finds the key of a message.
_KEY: Final = "@key"
#: Settings that the feed makes itself, and the options that stand for them.
_OWN_SETTINGS: Final = {
    "bootstrap.servers": "servers", "metadata.broker.list": "servers", "group.id": "consumer_group",
    "auto.offset.reset": "begin and on_gone", "enable.partition.eof": "until_end",
    "partition.assignment.strategy": "share", "enable.auto.commit": "consumer_group",
    "auto.commit.enable": "consumer_group", "enable.auto.offset.store": "consumer_group",
}  # fmt: skip
_COUNTS: Final = (
    "messages", "ticks", "tombstones", "other_messages", "duplicates", "moved_ticks", "gaps", "gone_messages",
    "connected", "disconnected", "assigned", "revoked", "lost", "overtaken", "commits", "commits_failed",
    "broker_errors",
)  # fmt: skip


@named_options("KafkaFeed()", declares=KafkaOptions)
class KafkaFeed(BaseFeed):
    """Receives ticks as the messages of Kafka topics; each batch holds what has arrived.

    Order is kept within a partition, so a symbol has to come from one partition, as a producer's keys see to it.
    ``ts_recv`` of a tick is its record's own, or for JSON the time of the message. Messages of several partitions come
    in the order of their times: that of the first record, or for JSON of the message.

    Args:
        servers: ``HOST:PORT`` of a broker, or several with commas.
        topics: The name of the topic, or several.
        profile: What JSON messages mean: a ``JsonProfile``, a dict, or the path of a TOML file. Its name ``@key`` is
            the key of a message. None: a message is one record of ``strand.TICK`` or more, and its key is the symbol.

    Raises:
        ConfigurationError: If an option or the profile cannot work.
        MissingExtraError: If confluent-kafka is not installed.
    """

    #: No files.
    reads: Sequence[str] = ()

    def __init__(
        self,
        servers: str,
        topics: str | Sequence[str],
        profile: JsonProfile | Mapping[str, Any] | str | Path | None = None,
        **options: Unpack[KafkaOptions],
    ) -> None:
        super().__init__()
        kafka = imported("confluent_kafka", "kafka", "a Kafka feed")
        servers, self._options, self.is_live = checked_servers(servers), options, not options["until_end"]
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        if not self._topics or not all(isinstance(topic, str) and topic for topic in self._topics):
            raise ConfigurationError("topics", f"{topics!r} is not the name of a topic, or several")
        if options["share"] and options["consumer_group"] is None:
            raise ConfigurationError("share", "give consumer_group, whose members share the partitions")
        if options["share"] and (options["partitions"] or options["until_end"]):
            field = "partitions" if options["partitions"] else "until_end"
            raise ConfigurationError(field, "it does not go together with share: the broker assigns partitions then")
        for number in several("partitions", options["partitions"], "[0, 1]"):
            whole("partitions", number, 0)
        for name in mapping("config", options["config"] or {}, "{'security.protocol': 'SSL'}"):
            if name in _OWN_SETTINGS:
                raise ConfigurationError("config", f"{name} is set by the option {_OWN_SETTINGS[name]}")
        symbols, self._max_symbols = options["symbols"], options["max_symbols"]
        if len(symbols) > self._max_symbols:
            raise ConfigurationError("symbols", f"{len(symbols):,} of them, and max_symbols is {self._max_symbols:,}")
        self._where = f"kafka://{servers}/{','.join(self._topics)}"
        self._profile = profile if profile is None or isinstance(profile, JsonProfile) else read_profile(profile)
        self._log, self._ending = Log(self._where, options["on_event"]), Ending(options)
        #: The newest events, at most ``EVENTS``, the latest last.
        self.events = self._log.events
        self._records = Records(symbols, self._max_symbols)
        self._take: Callable[..., tuple[TickBatch, Counts]] = self._records.take
        self._json: JsonTicks | None = None
        if self._profile is not None:
            self._json = JsonTicks(
                self._profile, self._where, on_bad_record=options["on_bad_record"], skipped=self.skipped,
                symbols=symbols, max_symbols=self._max_symbols, on_event=self._log.keep,
            )  # fmt: skip
            key = _KEY if any((_KEY,) in rule.symbol for rule in self._profile.rules) else None
            skips = options["on_bad_record"] == "skip"
            self._take = JsonMessages(self._json, self._where, key=key, skips=skips).take
        self._repeats = Repeats(self._max_symbols) if options["duplicates"] == "drop" else None
        self._owners = Owners(self._max_symbols)
        brokers = Brokers(kafka, servers, self._topics, options, log=self._log, ending=self._ending)
        self._reader = Reader(brokers, options, self._ending, with_times=self._json is not None)
        self._started = False
        #: Whether the caller tells of handled ticks between batches alone, as ``strand.follow`` does.
        self.is_in_parts = False
        #: The thread that takes the batches.
        self._thread: int | None = None

    @property
    def info(self) -> FeedInfo:
        if self._profile is None:
            return FeedInfo("kafka", self._where, details={"topics": list(self._topics)})
        assert self._json is not None
        return self._profile.info("kafka", self._where, {"topics": list(self._topics), **self._json.examples})

    @property
    def symbols(self) -> Sequence[str]:
        return self._records.names if self._json is None else self._json.names

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    def follow(self, published: Callable[[], int], handled: Callable[[], int]) -> None:
        self._reader.commits.published, self._reader.commits.handled = published, handled

    def state(self) -> Mapping[str, Any]:
        try:
            json = None if self._json is None else self._json.state()
        except ValueError as error:
            raise FeedError(f"its state cannot be saved: {error}", path=self._where) from error
        n = len(self.symbols)
        return {
            "topics": self._topics,
            "offsets": [[*place, offset] for place, offset in self._reader.next.items()],
            "symbols": list(self.symbols),
            **self._owners.state(n),
            "sequences": None if self._repeats is None else self._repeats.last[:n].tolist(),
            "json": json,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on from the ``state`` of an earlier feed, with its symbols and behind its offsets. Call it before the
        first batch.

        Raises:
            ConfigurationError: If that feed had other topics or options.
        """
        symbols, n = self.symbols, len(state["symbols"])
        given = list(symbols)
        for option, was, now in (
            ("topics", state["topics"], self._topics),
            ("symbols", state["symbols"][: len(given)], given),
            ("duplicates", state["sequences"] is not None, self._repeats is not None),
            ("profile", state["json"] is not None, self._json is not None),
        ):
            if was != now:
                raise ConfigurationError(option, "the saved state is of a feed with another value: give the same one")
        if n > self._max_symbols:
            raise ConfigurationError("max_symbols", f"the saved state has {n:,} symbols")
        self._reader.next = {(topic, partition): offset for topic, partition, offset in state["offsets"]}
        self._reader.is_resumed = True
        self._owners.resume(state)
        self._records.resume(state["symbols"])
        if self._repeats is not None:
            self._repeats.last[:n] = state["sequences"]
        if self._json is not None:
            self._json.resume(state["json"])

    def statistics(self) -> dict[str, int]:
        """``messages``, ``ticks``, ``tombstones`` (messages without a value), ``other_messages`` that no rule of the
        profile matches; ``duplicates`` and ``moved_ticks``, in ticks; ``gaps`` with their ``gone_messages``;
        ``connected``, ``disconnected``, ``assigned``, ``revoked``, ``lost`` and ``overtaken`` count events;
        ``commits`` and those that failed."""
        found = {name: self._log.counts[name] for name in _COUNTS}
        if self._json is None:
            return found
        of_json = self._json.statistics()
        return {**{name: n for name, n in of_json.items() if n}, **found, "other_messages": of_json["other_messages"]}

    def live_counts(self) -> Mapping[str, Any]:
        counts = self.statistics()
        return {
            "messages": counts["messages"], "gaps": counts["gaps"], "gap_messages": counts["gone_messages"],
            "reconnects": max(0, counts["connected"] - 1), "lines": {}, "statistics": counts,
        }  # fmt: skip

    def report(self) -> dict[str, Any]:
        """Report of the feed: the counts of ``statistics()``, the next offset of each partition, and the newest events
        as plain values."""
        return {
            **self.statistics(),
            "offsets": by_topic(self._reader.next),
            "committed": by_topic(self._reader.commits.committed),
            "events": [asdict(event) for event in self.events],
        }

    def stop(self) -> None:
        """Ends the iteration under way, or the next, within a tenth of a second. Any thread or a signal may call it."""
        self._ending.is_stopped = True

    def close(self) -> None:
        """Ends the feed, commits the offsets of what has been handled, and closes the connections. May be repeated."""
        self.stop()
        super().close()
        brokers = self._reader.brokers
        consumer, brokers.unclosed = brokers.unclosed, None
        if consumer is not None:
            until = time.monotonic() + _LAST_COMMIT_S
            while not self._reader.commits.make(consumer, wait=True) and time.monotonic() < until:
                consumer.poll(SLICE_S)  # a group that changes may be one again; what comes is not counted as handled
            consumer.close()

    def batches(self) -> Iterator[TickBatch]:
        """Yields batches of ticks; the first one is empty: it says that the feed is ready. An empty one follows each
        tenth of a second in which nothing came. The feed can be iterated once.

        Each error comes after every tick before it.

        Raises:
            FormatError: If a message cannot be read.
            GapError: If an offset is not in its partition any more, with ``on_gone="raise"``.
            FeedError: If no broker answers, a topic does not exist, or the brokers refuse this reader.
        """
        if self._started:
            raise FeedError("a live feed can be read once", path=self._where)
        self._started, self._thread = True, threading.get_ident()
        reader, mark = self._reader, self._reader.commits.mark
        try:
            reader.begin(in_parts=self.is_in_parts)
        except StoppedError:
            return
        yield empty(0)
        self._ending.begin()
        while not reader.is_over():
            mark()
            reader.commit_in_time()
            batch = self._ticks_of(reader.receive())
            returned = time.monotonic()
            yield batch  # an empty one brings the run's figures, and the next commit
            reader.look_for_partitions()
            away_s = time.monotonic() - returned  # what came meanwhile was not looked for: that is no silence
            self._ending.heard, reader.waits_since = self._ending.heard + away_s, reader.waits_since + away_s
            if self._log.fault is not None and not reader.partitions.is_waiting:
                mark()
                raise self._log.fault
        mark()

    def commit(self) -> None:
        """Commits the offsets behind all ticks that were given and are handled, and waits for it.

        The counters of ``follow`` say what is handled: those of a run or a join. A caller that takes batches itself
        has handled those that it got; its other threads leave the latest batch to the next commit.
        """
        commits, consumer = self._reader.commits, self._reader.brokers.unclosed
        if self._thread == threading.get_ident():  # any other thread may come between a batch and its count
            commits.mark()
        if consumer is not None:
            commits.make(consumer, wait=True)

    def _ticks_of(self, messages: Messages | None) -> TickBatch:
        """The ticks of messages, up to the first one that cannot be used. Notes the offsets behind them."""
        if messages is None:
            return empty(0)
        options, faults, counted = self._options, dict[int, FeedError](), self._log.counts
        places, of, columns = messages
        values, keys, offsets, *stamps = [column.tolist() for column in columns]
        ticks, counts = self._take(values, keys, faults, *stamps)
        moved = self._owners.moved(ticks, counts, places, of)
        if moved is not None and options["on_moved"] == "continue":
            counted["moved_ticks"] += moved.follow()
        elif moved is not None:
            faults[moved.message] = FeedError(
                f"{self.symbols[moved.symbol]} came from {named(moved.before)} before, so its order is lost: let the "
                "producer choose partitions by the symbol as key; on_moved='continue' takes its messages as they come"
            )
        end = len(values)
        for at in sorted(faults):
            error = faults[at]
            text = f"{named(places[of[at]])}, offset {offsets[at]:,}: {error}"
            if type(error) is not FormatError or options["on_bad_record"] == "raise":
                self._log.fault, end = type(error)(text, path=self._where), at
                self._reader.partitions.drop()
                break
            self.skipped.add("unreadable message", offset=offsets[at], text=text)
        counted["messages"] += end
        counted["tombstones"] += values[:end].count(None)
        for number, at in dict(zip(of[:end].tolist(), range(end), strict=True)).items():
            self._reader.next[places[number]] = self._reader.commits.given[places[number]] = offsets[at] + 1
        ticks, counts = ticks[: counts[:end].sum()], counts[:end]
        if self._repeats is not None:
            repeated = self._repeats.find(ticks, np.repeat(np.arange(end), counts))
            if repeated is not None:
                counted["duplicates"] += int(repeated.sum())
                ticks = picked(ticks, ~repeated)
        counted["ticks"] += len(ticks)
        return ticks


def checked_servers(servers: str) -> str:
    """Raises ConfigurationError for text that is no list of HOST:PORT."""
    for each in str(servers).split(","):
        host, _, port = each.strip().rpartition(":")
        if not host or "/" in host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65_536:
            raise ConfigurationError("servers", f"{each.strip()!r} is not HOST:PORT with a port from 1 to 65535")
    return str(servers)
