"""Messages of Kafka topics as ticks, and records of handlers as messages. Needs the extra ``kafka``.

A message is JSON that a profile describes (strand.feeds.formats.json.profile), or one record of ``strand.TICK`` or
more. The offset behind a message is committed when all of its ticks, and those of all messages before it, have been
handled.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np

from strand.errors import ConfigurationError, FeedError, FormatError, GapError
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.feeds.formats.json.profile import JsonProfile, read_profile
from strand.feeds.formats.json.ticks import EVENTS, FeedEvent, JsonTicks
from strand.feeds.live.messages import JsonMessages, Owners, Records, Repeats, tell
from strand.feeds.live.options import KafkaOptions
from strand.feeds.live.partitions import (
    Columns,
    Messages,
    Partitions,
    Place,
    by_topic,
    listed,
    named,
    runs,
    stamp_of,
    times_of,
)
from strand.lazy import imported
from strand.options import named_options
from strand.ticks import empty, picked

__all__ = ["KafkaFeed", "checked_servers"]

#: How long a look for messages takes at most, s: so often a feed looks whether its time is over.
_SLICE_S: Final = 0.1
#: How long the first message of a batch waits for more, s.
_GATHER_S: Final = 0.005
#: How long the feed waits, at most, until the messages of a partition that goes to another member are handled, s.
_REVOKE_S: Final = 5.0
_LOST: Final = "what was handled and not committed may be handled again elsewhere"
#: How long the last commit is tried, s.
_LAST_COMMIT_S: Final = 3.0
#: The time between two looks at the number of partitions, s.
_METADATA_S: Final = 30.0
#: The name under which a profile finds the key of a message.
_KEY: Final = "@key"
#: Settings that the feed makes itself, and the options that stand for them.
_OWN_SETTINGS: Final = {
    "bootstrap.servers": "servers", "metadata.broker.list": "servers", "group.id": "consumer_group",
    "auto.offset.reset": "begin and on_gone", "enable.partition.eof": "until_end",
    "partition.assignment.strategy": "share", "enable.auto.commit": "consumer_group",
    "auto.commit.enable": "consumer_group", "enable.auto.offset.store": "consumer_group",
}  # fmt: skip
_TRANSIENT: Final = (
    "_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT",
    "_WAIT_COORD", "BROKER_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH", "ILLEGAL_GENERATION", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE", "NETWORK_EXCEPTION",
    "NOT_COORDINATOR", "NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE", "REBALANCE_IN_PROGRESS",
    "REPLICA_NOT_AVAILABLE", "REQUEST_TIMED_OUT", "UNKNOWN_LEADER_EPOCH", "UNKNOWN_MEMBER_ID",
)  # fmt: skip
_COUNTS: Final = (
    "messages", "ticks", "tombstones", "other_messages", "duplicates", "moved_ticks", "gaps", "gone_messages",
    "connected", "disconnected", "assigned", "revoked", "lost", "overtaken", "commits", "commits_failed",
    "broker_errors",
)  # fmt: skip


class _StoppedError(Exception):
    """The feed was stopped before it began."""


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

    def __init__(
        self,
        servers: str,
        topics: str | Sequence[str],
        profile: JsonProfile | Mapping[str, Any] | str | Path | None = None,
        **options: Unpack[KafkaOptions],
    ) -> None:
        super().__init__()
        self._kafka = imported("confluent_kafka", "kafka", "a Kafka feed")
        self._servers, self._options = checked_servers(servers), options
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        if not self._topics or not all(isinstance(topic, str) and topic for topic in self._topics):
            raise ConfigurationError("topics", f"{topics!r} is not the name of a topic, or several")
        if options["share"] and options["consumer_group"] is None:
            raise ConfigurationError("share", "give consumer_group, whose members share the partitions")
        if options["share"] and (options["partitions"] or options["until_end"]):
            field = "partitions" if options["partitions"] else "until_end"
            raise ConfigurationError(field, "it does not go together with share: the broker assigns partitions then")
        for name in options["config"] or {}:
            if name in _OWN_SETTINGS:
                raise ConfigurationError("config", f"{name} is set by the option {_OWN_SETTINGS[name]}")
        symbols, self._max_symbols = options["symbols"], options["max_symbols"]
        if len(symbols) > self._max_symbols:
            raise ConfigurationError("symbols", f"{len(symbols):,} of them, and max_symbols is {self._max_symbols:,}")
        self._where = f"kafka://{self._servers}/{','.join(self._topics)}"
        self._profile = profile if profile is None or isinstance(profile, JsonProfile) else read_profile(profile)
        self._counts: collections.Counter[str] = collections.Counter()
        #: The newest events, at most ``EVENTS``, the latest last.
        self.events: collections.deque[FeedEvent] = collections.deque(maxlen=EVENTS)
        self._records = Records(symbols, self._max_symbols)
        self._json: JsonTicks | None = None
        if self._profile is not None:
            self._json = JsonTicks(
                self._profile, self._where, on_bad_record=options["on_bad_record"], skipped=self.skipped,
                symbols=symbols, max_symbols=self._max_symbols, on_event=self._keep,
            )  # fmt: skip
            by_key = any((_KEY,) in rule.symbol for rule in self._profile.rules)
            self._messages = JsonMessages(
                self._json, self._where, key=_KEY if by_key else None, skips=options["on_bad_record"] == "skip"
            )
        self._repeats = Repeats(self._max_symbols) if options["duplicates"] == "drop" else None
        self._owners = Owners(self._max_symbols)
        self._consumer: Any = None
        self._started = self._stopped = False
        self._begun = self._heard = self._looked = self._commit_at = 0.0
        #: The partitions that are read, since when their messages wait for others, and whether they still do.
        self._partitions = Partitions(self._newest)
        self._waits_since = 0.0
        self._is_patient, self._is_resumed = True, False
        #: The next offset of each place behind the ticks that were given.
        self._next: dict[Place, int] = {}
        #: Where reading has begun last: another member may have committed what lies before.
        self._begins: dict[Place, int] = {}
        #: Offsets of batches that were given: those that nobody has asked beyond yet, those that may not be handled
        #: yet, with the number of ticks that were published by then, and those that are handled, and are committed.
        self._given: dict[Place, int] = {}
        self._marks: collections.deque[tuple[int, dict[Place, int]]] = collections.deque()
        self._handled: dict[Place, int] = {}
        self._sent: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}
        #: The thread that takes the batches. Any thread may commit, one at a time.
        self._reader: int | None = None
        self._commits = threading.Lock()
        #: Whether the caller tells of handled ticks between batches alone, as ``strand.follow`` does.
        self.is_in_parts = False
        # Of a caller that takes batches itself: a batch is handled when the next one is asked for.
        self._count_published: Callable[[], int] = lambda: 0
        self._count_handled: Callable[[], int] = lambda: 0
        self._fault: FeedError | None = None
        self._latest_error = ""
        #: Codes of errors behind which librdkafka tries again without a loss.
        self._transient = {getattr(self._kafka.KafkaError, name) for name in _TRANSIENT}

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

    @property
    def is_live(self) -> bool:
        return not self._options["until_end"]

    @property
    def reads(self) -> Sequence[str]:
        return ()

    def follow(self, published: Callable[[], int], handled: Callable[[], int]) -> None:
        self._count_published, self._count_handled = published, handled

    def state(self) -> Mapping[str, Any]:
        try:
            json = None if self._json is None else self._json.state()
        except ValueError as error:
            raise FeedError(f"its state cannot be saved: {error}", path=self._where) from error
        n = len(self.symbols)
        return {
            "topics": self._topics,
            "offsets": [[*place, offset] for place, offset in self._next.items()],
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
        self._next = {(topic, partition): offset for topic, partition, offset in state["offsets"]}
        self._is_resumed = True
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
        found = {name: self._counts[name] for name in _COUNTS}
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
            "offsets": by_topic(self._next),
            "committed": by_topic(self._committed),
            "events": [asdict(event) for event in self.events],
        }

    def stop(self) -> None:
        """Ends the iteration under way, or the next, within a tenth of a second. Any thread or a signal may call it."""
        self._stopped = True

    def close(self) -> None:
        """Ends the feed, commits the offsets of what has been handled, and closes the connections. May be repeated."""
        self.stop()
        super().close()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            until = time.monotonic() + _LAST_COMMIT_S
            while not self._commit(consumer, wait=True) and time.monotonic() < until:
                consumer.poll(_SLICE_S)  # a group that changes may be one again; what comes is not counted as handled
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
        self._started, self._reader = True, threading.get_ident()
        try:
            self._begin()
        except _StoppedError:
            return
        yield empty(0)
        self._begun = self._heard = self._looked = self._commit_at = time.monotonic()
        while not self._over():
            self._mark()
            self._commit_in_time()
            batch = self._receive()
            returned = time.monotonic()
            # An empty batch brings the run's figures, and the next commit.
            yield empty(0) if batch is None else batch
            self._look_for_partitions()
            away_s = time.monotonic() - returned  # what came meanwhile was not looked for: that is no silence
            self._heard, self._waits_since = self._heard + away_s, self._waits_since + away_s
            if self._fault is not None and not self._partitions.is_waiting:
                self._mark()
                raise self._fault
        self._mark()

    def _mark(self) -> None:
        """Notes that the batches so far have been published."""
        if self._given and self._options["consumer_group"] is not None:
            self._marks.append((self._count_published(), self._given))
            self._given = {}

    def commit(self) -> None:
        """Commits the offsets behind all ticks that were given and are handled, and waits for it.

        The counters of ``follow`` say what is handled: those of a run or a join. A caller that takes batches itself
        has handled those that it got; its other threads leave the latest batch to the next commit.
        """
        if self._reader == threading.get_ident():  # any other thread may come between a batch and its count
            self._mark()
        if self._consumer is not None:
            self._commit(self._consumer, wait=True)

    def _commit_in_time(self) -> None:
        now = time.monotonic()
        if now >= self._commit_at:
            self._commit_at = now + self._options["commit_s"]
            self._commit(self._consumer, wait=False)

    def _commit(self, consumer: Any, *, wait: bool) -> bool:
        """Commits what has been handled, if there is a group. Returns False for a commit that failed: the next
        one makes it again."""
        if self._options["consumer_group"] is None:
            return True
        with self._commits:
            handled = self._count_handled() if self._marks else 0
            while self._marks and self._marks[0][0] <= handled:
                self._handled.update(self._marks.popleft()[1])
            before = self._committed if wait else self._sent
            new = {
                place: offset
                for place, offset in self._handled.items()
                if place in self._partitions and before.get(place) != offset >= self._begins.get(place, 0)
            }
            self._sent.update(new)
        if not new:
            return True
        offsets = [self._kafka.TopicPartition(*place, offset) for place, offset in new.items()]
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=not wait)
        except self._kafka.KafkaException as error:
            return self._told_commit(error.args[0], offsets)
        return not wait or self._told_commit(None, answers)

    def _told_commit(self, error: Any, offsets: Sequence[Any]) -> bool:
        """The answer to a commit. Returns False for one that failed; a fault that stays ends the feed."""
        wrong = error
        for each in offsets or ():
            place, failed = (each.topic, each.partition), error or each.error
            if failed is None:
                self._committed[place] = each.offset
            else:
                self._sent.pop(place, None)
                wrong = failed
        self._counts["commits" if wrong is None else "commits_failed"] += 1
        if wrong is not None and wrong.code() not in self._transient and self._fault is None:
            group = self._options["consumer_group"]
            self._fault = FeedError(f"offsets of group {group!r} cannot be committed: {wrong.str()}", path=self._where)
        return wrong is None

    def _begin(self) -> None:
        """Connects, and takes the partitions. Raises FeedError and GapError."""
        options, kafka = self._options, self._kafka
        settings = {
            "client.id": "strand",
            "log_level": 0,  # what matters comes as events and errors
            **(options["config"] or {}),
            "bootstrap.servers": self._servers,
            "group.id": options["consumer_group"] or "strand-without-group",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "partition.assignment.strategy": "cooperative-sticky",
            "on_commit": self._told_commit,
            "error_cb": self._told_error,
        }
        try:
            self._consumer = kafka.Consumer(settings)
        except (kafka.KafkaException, TypeError, ValueError) as error:
            raise ConfigurationError("config", str(error)) from error
        partitions = self._all_partitions(options["open_timeout_s"])
        self._note("connected", f"to {self._servers}")
        if options["share"]:
            self._consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        else:
            self._consumer.assign(self._offsets(partitions))

    def _all_partitions(self, timeout_s: float) -> list[Place]:
        """The partitions that were asked for. Raises FeedError."""
        found: list[Place] = []
        for topic in self._topics:
            try:
                about = self._asked(partial(self._consumer.list_topics, topic), timeout_s).topics[topic]
            except self._kafka.KafkaException as error:
                why = self._latest_error or _text(error)
                cure = "check servers, and config for TLS and passwords"
                text = f"no broker answered within {timeout_s:g} s ({why}): {cure}"
                raise FeedError(text, path=self._where) from error
            if about.error is not None:
                raise FeedError(f"topic {topic!r}: {about.error.str()}", path=self._where)
            wanted = self._options["partitions"]
            if missing := sorted(set(wanted) - set(about.partitions)):
                raise FeedError(
                    f"topic {topic!r} has no partition {missing[0]}: it has {len(about.partitions)}, from 0 on",
                    path=self._where,
                )
            found += [(topic, number) for number in sorted(wanted or about.partitions)]
        return found

    def _asked(self, ask: Callable[..., Any], timeout_s: float) -> Any:
        """The answer of a broker. It waits in slices: a stop ends the wait. Raises KafkaException, _StoppedError."""
        until, slice_s, codes = time.monotonic() + timeout_s, _SLICE_S, self._kafka.KafkaError
        while True:
            left = until - time.monotonic()
            try:
                return ask(timeout=max(min(slice_s, left), 0.001))
            except self._kafka.KafkaException as error:
                code = error.args[0].code()
                if self._stopped:
                    raise _StoppedError from None
                if left <= slice_s or code not in (codes._TRANSPORT, codes._TIMED_OUT):
                    raise
                if code == codes._TIMED_OUT:
                    slice_s *= 2  # a broker is there, and needs longer

    def _look_for_partitions(self) -> None:
        """Reads partitions that a topic got since the last look, from their start."""
        options, now = self._options, time.monotonic()
        if now - self._looked < _METADATA_S or options["share"] or options["partitions"] or options["until_end"]:
            return
        self._looked = now
        try:
            new = [place for place in self._all_partitions(1.0) if place not in self._partitions]
        except (FeedError, _StoppedError):
            return  # the brokers are away: the next look may find them
        if new:
            self._consumer.incremental_assign(
                [self._kafka.TopicPartition(*place, self._kafka.OFFSET_BEGINNING) for place in new]
            )
            for place in new:
                self._partitions.begin(place)
            self._note("assigned", f"new partitions {listed(new)}")

    def _offsets(self, places: Sequence[Place]) -> list[Any]:
        """Begins with partitions, and returns them with their offsets: behind what this feed has given, or the group
        has committed. Raises GapError and FeedError."""
        kafka = self._kafka
        committed: dict[Place, int] = {}
        if self._options["consumer_group"] is not None:
            committed = self._committed_offsets([kafka.TopicPartition(*place) for place in places])
        begins: dict[Place, tuple[int, int | None]] = {}
        for place in places:
            own, theirs = self._next.get(place), committed.get(place)
            if self._is_resumed and own is not None:
                theirs = None  # what the group has read since is not in the state
            if own is not None and theirs is not None and theirs > own:
                self._note("gap", f"{named(place)}: {theirs - own:,} messages were read by another member", 0)
            known = max((offset for offset in (own, theirs) if offset is not None), default=None)
            begins[place] = self._there(place, known)
        for place, (offset, end) in begins.items():
            self._next[place] = self._begins[place] = offset
            self._partitions.begin(place, offset, end)
        return [kafka.TopicPartition(*place, offset) for place, (offset, _) in begins.items()]

    def _committed_offsets(self, asked: list[Any]) -> dict[Place, int]:
        """The offsets that the group has committed. Raises FeedError."""
        until = time.monotonic() + self._options["open_timeout_s"]
        while True:
            try:
                answers = self._consumer.committed(asked, timeout=max(0.1, until - time.monotonic()))
                wrong = next((each.error for each in answers if each.error is not None), None)
            except self._kafka.KafkaException as error:
                wrong = error.args[0]
            if wrong is None:
                return {(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}
            if wrong.code() not in self._transient or time.monotonic() >= until:
                raise FeedError(
                    f"the offsets of group {self._options['consumer_group']!r}: {wrong.str()}", path=self._where
                )
            time.sleep(_SLICE_S)

    def _there(self, place: Place, offset: int | None) -> tuple[int, int | None]:
        """An offset that is in its partition (None: where the feed begins), and where the feed ends with it. Raises
        GapError, and FeedError."""
        kafka = self._kafka
        try:
            low, high = self._consumer.get_watermark_offsets(
                kafka.TopicPartition(*place), timeout=self._options["open_timeout_s"]
            )
        except kafka.KafkaException as error:
            raise FeedError(f"{named(place)}: its offsets cannot be read: {_text(error)}", path=self._where) from error
        if offset is None:
            is_new = self._is_resumed and not (self._options["partitions"] or self._options["share"])  # since the state
            offset = int(high if self._options["begin"] == "latest" and not is_new else low)
        elif not low <= offset <= high:
            offset = self._gone(place, offset, low, high)
        return offset, high if self._options["until_end"] else None

    def _gone(self, place: Place, offset: int, low: int, high: int) -> int:
        """The offset to go on with where one is gone. Raises GapError."""
        on_gone = self._options["on_gone"]
        to = high if on_gone == "latest" else low
        if offset < low:
            why = f"{named(place)}: offset {offset:,} is gone, and the first one is {low:,}: the topic keeps no more"
        else:
            why = f"{named(place)}: offset {offset:,} does not exist, and the last one is {high - 1:,}: a new topic"
        if on_gone == "raise":
            gaps = ((offset, low),) if offset < low else ()
            raise GapError(
                f"{why}; on_gone='earliest' goes on with offset {low:,}, on_gone='latest' behind the last one",
                path=self._where,
                gaps=gaps,
            )
        missing = max(0, to - offset)
        self._counts["gaps"] += 1
        self._counts["gone_messages"] += missing
        self._note("gap", f"{why}; going on with offset {to:,}", missing)
        return to

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        try:
            consumer.incremental_assign(self._offsets(places))
        except FeedError as error:  # it must not cross librdkafka
            self._fault = error
            return
        self._note("assigned", listed(places))

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Commits what has been handled of partitions that go to another member, which begins there."""
        places = [(each.topic, each.partition) for each in partitions]
        until, is_committed = time.monotonic() + _REVOKE_S, False
        while not is_committed and self._fault is None and time.monotonic() < until:
            is_committed = self._commit(consumer, wait=True)
            is_unhandled = any(place in mark for _, mark in self._marks for place in places)
            is_committed &= not is_unhandled
            if is_unhandled and self.is_in_parts:
                break  # this thread alone saves the state of what was handled
            if not is_committed:
                time.sleep(0.005)
        self._leave(consumer, partitions)
        if is_committed:
            self._note("revoked", listed(places))
        else:
            self._note("lost", f"{listed(places)}: {_LOST}")

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Notes partitions that another member may have by now: nothing can be committed for them."""
        places = self._leave(consumer, partitions)
        for place in places:
            self._committed.pop(place, None)
        self._note("lost", f"{listed(places)}: {_LOST}")

    def _leave(self, consumer: Any, partitions: Sequence[Any]) -> list[Place]:
        """Forgets what was received of partitions and not given: the next member reads it again."""
        places = [(each.topic, each.partition) for each in partitions]
        self._tell(consumer.resume, self._partitions.paused(places))
        self._partitions.remove(places)
        consumer.incremental_unassign(partitions)
        return places

    def _tell(self, change: Callable[[list[Any]], None], places: Sequence[Place]) -> None:
        if places:
            change([self._kafka.TopicPartition(*place) for place in places])

    def _told_error(self, error: Any) -> None:
        """Errors of librdkafka, which goes on by itself but for fatal ones."""
        codes = self._kafka.KafkaError
        self._latest_error = error.str()
        if error.fatal() or error.code() in (codes._AUTHENTICATION, codes._SSL):
            self._fault = FeedError(f"Kafka: {error.str()}", path=self._where)
        elif error.code() == codes._ALL_BROKERS_DOWN and self._counts["connected"] and not self._is_down:
            self._note("disconnected", error.str())

    @property
    def _is_down(self) -> bool:
        return self._counts["disconnected"] >= self._counts["connected"]

    def _note(self, kind: Any, text: str, missing: int = 0) -> None:
        self._keep(FeedEvent(kind, time.time_ns(), text, None, missing))

    def _keep(self, event: FeedEvent) -> None:
        """Keeps an event, logs it, and calls the user's function."""
        self._counts[event.kind] += 1
        self.events.append(event)
        tell(self._options["on_event"], event)

    def _receive(self) -> TickBatch | None:
        """The ticks of the messages that come next; None: there are none. Sets the fault behind them."""
        most = self._options["batch_messages"]
        if (bound := self._options["max_messages"]) is not None:
            most = min(most, bound - self._counts["messages"])
        messages = self._take(most)
        if messages is None and self._fault is None:
            received = self._consume(most)
            if len(received) == len(self._partitions) == 1 and not self._partitions.is_waiting:
                ((place, columns),) = received
                messages = Messages([place], np.zeros(len(columns[0]), np.int64), columns)
            else:
                self._hold_back(received)
                messages = self._take(most)
                self._tell(self._consumer.pause, self._partitions.pause())
        if messages is None:
            return None
        batch = self._ticks_of(messages)
        self._counts["ticks"] += len(batch)
        return batch

    def _consume(self, most: int) -> list[tuple[Place, Columns]]:
        """The messages that have come, by those in a row that are of one partition. Takes errors in place of some."""
        messages: list[Any] = []
        try:
            messages += self._consumer.consume(1, min(_SLICE_S, self._left_s()))
            if messages and most > 1:
                messages += self._consumer.consume(most - 1, _GATHER_S)
        except self._kafka.KafkaException as error:
            self._fault = FeedError(f"Kafka: {_text(error)}", path=self._where)
        if messages:
            self._heard, self._is_patient = time.monotonic(), True
        errors = [message for message in messages if message.error() is not None]
        if errors:
            messages = [message for message in messages if message.error() is None]
        if messages and self._is_down:
            self._note("connected", f"to {self._servers}")
        message = self._kafka.Message
        kept = [(message.value, object), (message.key, object), (message.offset, np.int64)]
        if self._json is not None:
            kept.append((stamp_of, np.int64))
        found: list[tuple[Place, Columns]] = []
        for place, run in runs(message, messages):
            # It may be another member's by now, or behind the end.
            if place in self._partitions and (given := self._partitions.received(place, run)):
                found.append((place, [np.fromiter(map(get, given), dtype, len(given)) for get, dtype in kept]))
        for each in errors:
            self._told_of(each)
        return found

    def _hold_back(self, received: list[tuple[Place, Columns]]) -> None:
        """Lets messages wait for those of other partitions."""
        if not self._partitions.is_waiting:
            self._waits_since = time.monotonic()
        for place, columns in received:
            self._partitions.keep(place, columns, times_of(*columns))

    def _take(self, most: int) -> Messages | None:
        """The messages that come next by their times; None where one that is not here yet may be earlier."""
        if not self._partitions.is_waiting:
            return None
        now, wait_s, waits = time.monotonic(), self._options["wait_s"], self._is_patient and self._fault is None
        found = self._partitions.take(most, waits=waits)
        if found is not None:
            self._waits_since = now
            if waits:
                self._heard = now
            self._tell(self._consumer.resume, self._partitions.resume())
        elif wait_s is not None and now - self._waits_since > wait_s:
            self._waits_since = now
            late = listed(self._partitions.overtake())
            self._note("overtaken", f"{late}: no message came for {wait_s:g} s, and the others go on")
        return found

    def _newest(self, place: Place) -> int:
        _, high = self._consumer.get_watermark_offsets(self._kafka.TopicPartition(*place), cached=True)
        return int(high)

    def _told_of(self, message: Any) -> None:
        """An error in place of a message."""
        error, place, codes = message.error(), (message.topic(), message.partition()), self._kafka.KafkaError
        if error.code() in (codes._PARTITION_EOF, codes._AUTO_OFFSET_RESET) and place not in self._partitions:
            return  # it is another member's by now
        if error.code() == codes._PARTITION_EOF:
            self._partitions.reached_end(place, message.offset())
        elif error.code() == codes._AUTO_OFFSET_RESET:
            try:
                low, high = self._consumer.get_watermark_offsets(
                    self._kafka.TopicPartition(*place), timeout=self._options["open_timeout_s"]
                )
                wanted = self._partitions.offset(place)
                to = self._gone(place, max(message.offset() if wanted is None else wanted, 0), low, high)
                if self._partitions.skip(place, to):
                    self._next[place] = self._begins[place] = to
                self._begins[place] = min(self._begins.get(place, to), to)  # offsets of a new topic are lower
                self._consumer.incremental_unassign([self._kafka.TopicPartition(*place)])  # a seek is refused here
                self._consumer.incremental_assign([self._kafka.TopicPartition(*place, to)])
            except FeedError as fault:
                self._fault = fault
            except self._kafka.KafkaException as fault:
                self._fault = FeedError(f"{named(place)}: {error.str()} ({_text(fault)})", path=self._where)
        elif error.code() in self._transient or (
            # A consumer looks for a group in any case.
            error.code() == codes.GROUP_AUTHORIZATION_FAILED and self._options["consumer_group"] is None
        ):
            self._counts["broker_errors"] += 1
        else:
            self._fault = FeedError(f"{named(place)}: {error.str()}", path=self._where)

    def _ticks_of(self, messages: Messages) -> TickBatch:
        """The ticks of messages, up to the first one that cannot be used. Notes the offsets behind them."""
        options, faults = self._options, dict[int, FeedError]()
        places, of, columns = messages
        values, keys, offsets, *stamps = [column.tolist() for column in columns]
        if self._json is None:
            ticks, counts = self._records.take([value or b"" for value in values], keys, faults)
        else:
            ticks, counts = self._messages.take(values, keys, stamps[0], faults)
        moved = self._owners.moved(ticks, counts, places, of)
        if moved is not None and options["on_moved"] == "continue":
            self._counts["moved_ticks"] += moved.follow()
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
                self._fault, end = type(error)(text, path=self._where), at
                self._partitions.drop()
                break
            self.skipped.add("unreadable message", offset=offsets[at], text=text)
        self._counts["messages"] += end
        self._counts["tombstones"] += values[:end].count(None)
        for number, at in dict(zip(of[:end].tolist(), range(end), strict=True)).items():
            self._next[places[number]] = self._given[places[number]] = offsets[at] + 1
        ticks, counts = ticks[: counts[:end].sum()], counts[:end]
        if self._repeats is None:
            return ticks
        repeated = self._repeats.find(ticks, np.repeat(np.arange(end), counts))
        if repeated is None:
            return ticks
        self._counts["duplicates"] += int(repeated.sum())
        return picked(ticks, ~repeated)

    def _left_s(self) -> float:
        """The time to wait for a message, s."""
        now, seconds, idle_s = time.monotonic(), self._options["max_seconds"], self._options["idle_timeout_s"]
        left = _SLICE_S if seconds is None else self._begun + seconds - now
        if idle_s is not None:
            left = min(left, self._heard + idle_s - now)
        return max(left, 0.0)

    def _over(self) -> bool:
        most, seconds = self._options["max_messages"], self._options["max_seconds"]
        if self._stopped or (most is not None and self._counts["messages"] >= most):
            return True
        if self._left_s() <= 0:
            if seconds is not None and time.monotonic() >= self._begun + seconds:
                return True
            self._is_patient = False  # nothing comes: what waits is given
            return not self._partitions.is_waiting
        return self._options["until_end"] and self._partitions.are_ended


def checked_servers(servers: str) -> str:
    """Raises ConfigurationError for text that is no list of HOST:PORT."""
    for each in str(servers).split(","):
        host, _, port = each.strip().rpartition(":")
        if not host or "/" in host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65_536:
            raise ConfigurationError("servers", f"{each.strip()!r} is not HOST:PORT with a port from 1 to 65535")
    return str(servers)


def _text(error: Any) -> str:
    """The text of a KafkaException."""
    return str(error.args[0].str() if error.args and hasattr(error.args[0], "str") else error)
