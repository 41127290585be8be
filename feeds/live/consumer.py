"""Partitions of Kafka topics, read alone or as a member of a group, and the offsets behind what has been handled."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from strand.errors import ConfigurationError, FeedError, GapError
from strand.feeds.live.messages import Ending, Log
from strand.feeds.live.options import KafkaOptions
from strand.feeds.live.partitions import (
    Columns,
    Messages,
    Partition,
    Partitions,
    Place,
    listed,
    named,
    runs,
    stamp_of,
    times_of,
)

#: How long a look for messages takes at most, s: so often a feed looks whether its time is over.
SLICE_S: Final = 0.1
#: How long the first message of a batch waits for more, s.
_GATHER_S: Final = 0.005
#: How long the feed waits, at most, until the messages of a partition that goes to another member are handled, s.
_REVOKE_S: Final = 5.0
_LOST: Final = "what was handled and not committed may be handled again elsewhere"
#: The time between two looks at the number of partitions, s.
_METADATA_S: Final = 30.0
_TRANSIENT: Final = (
    "_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT",
    "_WAIT_COORD", "BROKER_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH", "ILLEGAL_GENERATION", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE", "NETWORK_EXCEPTION",
    "NOT_COORDINATOR", "NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE", "REBALANCE_IN_PROGRESS",
    "REPLICA_NOT_AVAILABLE", "REQUEST_TIMED_OUT", "UNKNOWN_LEADER_EPOCH", "UNKNOWN_MEMBER_ID",
)  # fmt: skip


class StoppedError(Exception):
    """The feed was stopped before it began."""


class Brokers:
    """Brokers of a cluster, which a consumer asks.

    Attributes:
        at: Makes what stands for a partition, perhaps with an offset, to the consumer.
        consumer: The consumer; None before ``connect``.
        unclosed: The same one until somebody closes it.
        transient: Codes of errors behind which librdkafka tries again without a loss.
    """

    def __init__(
        self, kafka: Any, servers: str, topics: Sequence[str], options: KafkaOptions, *, log: Log, ending: Ending
    ) -> None:
        self.kafka, self.servers, self.topics, self.log = kafka, servers, topics, log
        self._options, self._ending = options, ending
        self.at = kafka.TopicPartition
        self.consumer: Any = None
        self.unclosed: Any = None
        self.transient = {getattr(kafka.KafkaError, name) for name in _TRANSIENT}
        self._latest_error = ""

    def connect(self, on_commit: Callable[[Any, Sequence[Any]], object]) -> None:
        """Makes the consumer. Raises ConfigurationError."""
        settings = {
            "client.id": "strand",
            "log_level": 0,  # what matters comes as events and errors
            **(self._options["config"] or {}),
            "bootstrap.servers": self.servers,
            "group.id": self._options["consumer_group"] or "strand-without-group",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "partition.assignment.strategy": "cooperative-sticky",
            "on_commit": on_commit,
            "error_cb": self._told_error,
        }
        try:
            self.consumer = self.unclosed = self.kafka.Consumer(settings)
        except (self.kafka.KafkaException, TypeError, ValueError) as error:
            raise ConfigurationError("config", str(error)) from error

    def _told_error(self, error: Any) -> None:
        """Errors of librdkafka, which goes on by itself but for fatal ones."""
        codes = self.kafka.KafkaError
        self._latest_error = error.str()
        if error.fatal() or error.code() in (codes._AUTHENTICATION, codes._SSL):
            self.log.fail(f"Kafka: {error.str()}")
        elif error.code() == codes._ALL_BROKERS_DOWN and self.log.counts["connected"] and not self.are_down:
            self.log.note("disconnected", error.str())

    @property
    def are_down(self) -> bool:
        """True from a disconnection on, until messages come."""
        return self.log.counts["disconnected"] >= self.log.counts["connected"]

    def partitions(self, timeout_s: float) -> list[Place]:
        """The partitions that were asked for. Raises FeedError."""
        found: list[Place] = []
        for topic in self.topics:
            try:
                about = self._asked(partial(self.consumer.list_topics, topic), timeout_s).topics[topic]
            except self.kafka.KafkaException as error:
                why = self._latest_error or text_of(error)
                cure = "check servers, and config for TLS and passwords"
                text = f"no broker answered within {timeout_s:g} s ({why}): {cure}"
                raise FeedError(text, path=self.log.where) from error
            if about.error is not None:
                raise FeedError(f"topic {topic!r}: {about.error.str()}", path=self.log.where)
            wanted = self._options["partitions"]
            if missing := sorted(set(wanted) - set(about.partitions)):
                raise FeedError(
                    f"topic {topic!r} has no partition {missing[0]}: it has {len(about.partitions)}, from 0 on",
                    path=self.log.where,
                )
            found += [(topic, number) for number in sorted(wanted or about.partitions)]
        return found

    def _asked(self, ask: Callable[..., Any], timeout_s: float) -> Any:
        """The answer of a broker. It waits in slices: a stop ends the wait. Raises KafkaException, StoppedError."""
        until, slice_s, codes = time.monotonic() + timeout_s, SLICE_S, self.kafka.KafkaError
        while True:
            left = until - time.monotonic()
            try:
                return ask(timeout=max(min(slice_s, left), 0.001))
            except self.kafka.KafkaException as error:
                code = error.args[0].code()
                if self._ending.is_stopped:
                    raise StoppedError from None
                if left <= slice_s or code not in (codes._TRANSPORT, codes._TIMED_OUT):
                    raise
                if code == codes._TIMED_OUT:
                    slice_s *= 2  # a broker is there, and needs longer

    def committed(self, places: Sequence[Place]) -> dict[Place, int]:
        """The offsets that the group has committed. Raises FeedError."""
        until = time.monotonic() + self._options["open_timeout_s"]
        while True:
            try:
                asked = [self.at(*place) for place in places]
                answers = self.consumer.committed(asked, timeout=max(0.1, until - time.monotonic()))
                wrong = next((each.error for each in answers if each.error is not None), None)
            except self.kafka.KafkaException as error:
                wrong = error.args[0]
            if wrong is None:
                return {(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}
            if wrong.code() not in self.transient or time.monotonic() >= until:
                group = self._options["consumer_group"]
                raise FeedError(f"the offsets of group {group!r}: {wrong.str()}", path=self.log.where)
            time.sleep(SLICE_S)

    def bounds(self, place: Place) -> tuple[int, int]:
        """The first offset of a partition, and the one behind its newest message. Raises KafkaException."""
        low, high = self.consumer.get_watermark_offsets(self.at(*place), timeout=self._options["open_timeout_s"])
        return low, high

    def newest(self, place: Place) -> int:
        """The offset behind the newest message of a partition, as far as it is known; less than 0: it is not."""
        _, high = self.consumer.get_watermark_offsets(self.at(*place), cached=True)
        return int(high)

    def change(self, change: Callable[[list[Any]], None], places: Sequence[Place]) -> None:
        """Tells a consumer to pause or resume partitions, if there are any."""
        if places:
            change([self.at(*place) for place in places])


class Commits:
    """Commits of a group's offsets behind what has been handled. Any thread may commit, one at a time.

    Args:
        partitions: Those that are read: of others nothing is committed.
        group: The name of the group; None: nothing is committed.

    Attributes:
        begins: Where reading has begun last: another member may have committed what lies before.
        given: Offsets behind batches that were given, and that nobody has asked beyond yet.
        committed: The offsets that brokers have taken.
        published, handled: Count the ticks of a run, as ``BaseFeed.follow`` says it.
    """

    def __init__(self, brokers: Brokers, partitions: Partitions, group: str | None) -> None:
        self._brokers, self._partitions, self._group = brokers, partitions, group
        self.begins: dict[Place, int] = {}
        self.given: dict[Place, int] = {}
        #: Offsets behind batches that may not be handled yet, with the number of ticks that were published by then, and
        #: those that are handled, and that were sent.
        self._marks: collections.deque[tuple[int, dict[Place, int]]] = collections.deque()
        self._handled: dict[Place, int] = {}
        self._sent: dict[Place, int] = {}
        self.committed: dict[Place, int] = {}
        self._lock = threading.Lock()
        # Of a caller that takes batches itself: a batch is handled when the next one is asked for.
        self.published: Callable[[], int] = lambda: 0
        self.handled: Callable[[], int] = lambda: 0

    def mark(self) -> None:
        """Notes that the batches so far have been published."""
        if self.given and self._group is not None:
            self._marks.append((self.published(), self.given))
            self.given = {}

    def waits_for(self, places: Sequence[Place]) -> bool:
        """Tells whether batches of some partitions are not handled yet."""
        return any(place in mark for _, mark in self._marks for place in places)

    def make(self, consumer: Any, *, wait: bool) -> bool:
        """Commits what has been handled, if there is a group. Returns False for a commit that failed: the next
        one makes it again."""
        if self._group is None:
            return True
        with self._lock:
            handled = self.handled() if self._marks else 0
            while self._marks and self._marks[0][0] <= handled:
                self._handled.update(self._marks.popleft()[1])
            before = self.committed if wait else self._sent
            new = {
                place: offset
                for place, offset in self._handled.items()
                if place in self._partitions and before.get(place) != offset >= self.begins.get(place, 0)
            }
            self._sent.update(new)
        if not new:
            return True
        offsets = [self._brokers.at(*place, offset) for place, offset in new.items()]
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=not wait)
        except self._brokers.kafka.KafkaException as error:
            return self.told(error.args[0], offsets)
        return not wait or self.told(None, answers)

    def told(self, error: Any, offsets: Sequence[Any]) -> bool:
        """Takes the answer to a commit. Returns False for one that failed; a fault that stays ends the feed."""
        wrong, log = error, self._brokers.log
        for each in offsets or ():
            place, failed = (each.topic, each.partition), error or each.error
            if failed is None:
                self.committed[place] = each.offset
            else:
                self._sent.pop(place, None)
                wrong = failed
        log.counts["commits" if wrong is None else "commits_failed"] += 1
        if wrong is not None and wrong.code() not in self._brokers.transient and log.fault is None:
            log.fail(f"offsets of group {self._group!r} cannot be committed: {wrong.str()}")
        return wrong is None


class Reader:
    """Reads the partitions of topics: all of them, those that were chosen, or those that a group leaves to it.

    Args:
        with_times: Whether the times of messages are kept.

    Attributes:
        next: The next offset of each partition behind the ticks that were given.
        is_resumed: Whether ``next`` is of a saved state.
        waits_since: Since when messages wait for those of other partitions, s of the monotonic clock.
    """

    def __init__(self, brokers: Brokers, options: KafkaOptions, ending: Ending, *, with_times: bool) -> None:
        self.brokers, self._log, self._options, self._ending = brokers, brokers.log, options, ending
        self.partitions = Partitions(brokers.newest)
        self.commits = Commits(brokers, self.partitions, options["consumer_group"])
        self.next: dict[Place, int] = {}
        self.is_resumed = False
        self.waits_since = self._looked = self._commit_at = 0.0
        self._is_patient, self._is_in_parts = True, False
        message = brokers.kafka.Message
        self._kept = [(message.value, object), (message.key, object), (message.offset, np.int64)]
        if with_times:
            self._kept.append((stamp_of, np.int64))

    def begin(self, *, in_parts: bool) -> None:
        """Connects, and takes the partitions. Raises ConfigurationError, FeedError and GapError. ``in_parts``: whether
        ticks become handled between batches alone."""
        brokers, self._is_in_parts = self.brokers, in_parts
        brokers.connect(self.commits.told)
        partitions = brokers.partitions(self._options["open_timeout_s"])
        self._log.note("connected", f"to {brokers.servers}")
        if self._options["share"]:
            brokers.consumer.subscribe(
                brokers.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        else:
            brokers.consumer.assign(self._offsets(partitions))

    def commit_in_time(self) -> None:
        """Commits what has been handled, each time that the interval has passed."""
        now = time.monotonic()
        if now >= self._commit_at:
            self._commit_at = now + self._options["commit_s"]
            self.commits.make(self.brokers.consumer, wait=False)

    def look_for_partitions(self) -> None:
        """Reads partitions that a topic got since the last look, from their start."""
        options, now, brokers = self._options, time.monotonic(), self.brokers
        since = max(self._looked, self._ending.begun)
        if now - since < _METADATA_S or options["share"] or options["partitions"] or options["until_end"]:
            return
        self._looked = now
        try:
            new = [place for place in brokers.partitions(1.0) if place not in self.partitions]
        except (FeedError, StoppedError):
            return  # the brokers are away: the next look may find them
        if new:
            brokers.consumer.incremental_assign([brokers.at(*place, brokers.kafka.OFFSET_BEGINNING) for place in new])
            for place in new:
                self.partitions[place] = Partition(None, None)
            self._log.note("assigned", f"new partitions {listed(new)}")

    def _offsets(self, places: Sequence[Place]) -> list[Any]:
        """Begins with partitions, and returns them with their offsets: behind what this feed has given, or the group
        has committed. Raises GapError and FeedError."""
        options, is_resumed = self._options, self.is_resumed
        committed = {} if options["consumer_group"] is None else self.brokers.committed(places)
        begins: dict[Place, tuple[int, int | None]] = {}
        for place in places:
            own, theirs = self.next.get(place), committed.get(place)
            if is_resumed and own is not None:
                theirs = None  # what the group has read since is not in the state
            if own is not None and theirs is not None and theirs > own:
                self._log.note("gap", f"{named(place)}: {theirs - own:,} messages were read by another member", 0)
            offset = max((offset for offset in (own, theirs) if offset is not None), default=None)
            try:
                low, high = self.brokers.bounds(place)
            except self.brokers.kafka.KafkaException as error:
                text = f"{named(place)}: its offsets cannot be read: {text_of(error)}"
                raise FeedError(text, path=self._log.where) from error
            if offset is None:
                is_new = is_resumed and not (options["partitions"] or options["share"])  # since the state
                offset = int(high if options["begin"] == "latest" and not is_new else low)
            elif not low <= offset <= high:
                offset = self._gone(place, offset, low, high)
            begins[place] = offset, high if options["until_end"] else None
        for place, (offset, end) in begins.items():
            self.next[place] = self.commits.begins[place] = offset
            self.partitions[place] = Partition(offset, end)
        return [self.brokers.at(*place, offset) for place, (offset, _) in begins.items()]

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
                path=self._log.where,
                gaps=gaps,
            )
        missing = max(0, to - offset)
        self._log.counts["gaps"] += 1
        self._log.counts["gone_messages"] += missing
        self._log.note("gap", f"{why}; going on with offset {to:,}", missing)
        return to

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        try:
            consumer.incremental_assign(self._offsets(places))
        except FeedError as error:  # it must not cross librdkafka
            self._log.fault = error
            return
        self._log.note("assigned", listed(places))

    def _on_revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Commits what has been handled of partitions that go to another member, which begins there."""
        places = [(each.topic, each.partition) for each in partitions]
        until, is_committed = time.monotonic() + _REVOKE_S, False
        while not is_committed and self._log.fault is None and time.monotonic() < until:
            is_committed = self.commits.make(consumer, wait=True)
            is_unhandled = self.commits.waits_for(places)
            is_committed &= not is_unhandled
            if is_unhandled and self._is_in_parts:
                break  # this thread alone saves the state of what was handled
            if not is_committed:
                time.sleep(0.005)
        self._leave(consumer, partitions)
        if is_committed:
            self._log.note("revoked", listed(places))
        else:
            self._log.note("lost", f"{listed(places)}: {_LOST}")

    def _on_lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Notes partitions that another member may have by now: nothing can be committed for them."""
        places = self._leave(consumer, partitions)
        for place in places:
            self.commits.committed.pop(place, None)
        self._log.note("lost", f"{listed(places)}: {_LOST}")

    def _leave(self, consumer: Any, partitions: Sequence[Any]) -> list[Place]:
        """Forgets what was received of partitions and not given: the next member reads it again."""
        places = [(each.topic, each.partition) for each in partitions]
        self.brokers.change(consumer.resume, self.partitions.remove(places))
        consumer.incremental_unassign(partitions)
        return places

    def receive(self) -> Messages | None:
        """The messages that come next; None: there are none yet."""
        most = self._options["batch_messages"]
        if (bound := self._options["max_messages"]) is not None:
            most = min(most, bound - self._log.counts["messages"])
        messages = self._take(most)
        if messages is not None or self._log.fault is not None:
            return messages
        received = self._consume(most)
        if len(received) == len(self.partitions) == 1 and not self.partitions.is_waiting:
            ((place, columns),) = received
            return Messages([place], np.zeros(len(columns[0]), np.int64), columns)
        if not self.partitions.is_waiting:
            self.waits_since = time.monotonic()
        for place, columns in received:
            self.partitions[place].add(columns, times_of(*columns))
        messages = self._take(most)
        self.brokers.change(self.brokers.consumer.pause, self.partitions.turned(paused=True))
        return messages

    def _consume(self, most: int) -> list[tuple[Place, Columns]]:
        """The messages that have come, by those in a row that are of one partition. Takes errors in place of some."""
        consumer, kafka, messages = self.brokers.consumer, self.brokers.kafka, list[Any]()
        try:
            messages += consumer.consume(1, min(SLICE_S, self._ending.left_s()))
            if messages and most > 1:
                messages += consumer.consume(most - 1, _GATHER_S)
        except kafka.KafkaException as error:
            self._log.fail(f"Kafka: {text_of(error)}")
        if messages:
            self._ending.heard, self._is_patient = time.monotonic(), True
        errors = [message for message in messages if message.error() is not None]
        if errors:
            messages = [message for message in messages if message.error() is None]
        if messages and self.brokers.are_down:
            self._log.note("connected", f"to {self.brokers.servers}")
        found: list[tuple[Place, Columns]] = []
        for place, run in runs(kafka.Message, messages):
            # It may be another member's by now, or behind the end.
            if (partition := self.partitions.get(place)) is not None and (given := partition.received(run)):
                columns = [np.fromiter(map(get, given), dtype, len(given)) for get, dtype in self._kept]
                found.append((place, columns))
        for each in errors:
            self._told_of(each)
        return found

    def _take(self, most: int) -> Messages | None:
        """The messages that come next by their times; None where one that is not here yet may be earlier."""
        if not self.partitions.is_waiting:
            return None
        now, wait_s, waits = time.monotonic(), self._options["wait_s"], self._is_patient and self._log.fault is None
        found = self.partitions.take(most, waits=waits)
        if found is not None:
            self.waits_since = now
            if waits:
                self._ending.heard = now
            self.brokers.change(self.brokers.consumer.resume, self.partitions.turned(paused=False))
        elif wait_s is not None and now - self.waits_since > wait_s:
            self.waits_since = now
            late = listed(self.partitions.overtake())
            self._log.note("overtaken", f"{late}: no message came for {wait_s:g} s, and the others go on")
        return found

    def _told_of(self, message: Any) -> None:
        """An error in place of a message."""
        error, place = message.error(), (message.topic(), message.partition())
        codes, brokers = self.brokers.kafka.KafkaError, self.brokers
        if error.code() in (codes._PARTITION_EOF, codes._AUTO_OFFSET_RESET):
            if (partition := self.partitions.get(place)) is None:
                return  # it is another member's by now
            if error.code() == codes._PARTITION_EOF:
                partition.reached_end(message.offset())
                return
            try:
                wanted = message.offset() if partition.read is None else partition.read
                to = self._gone(place, max(wanted, 0), *brokers.bounds(place))
                if partition.skip(to):
                    self.next[place] = self.commits.begins[place] = to
                begins = self.commits.begins
                begins[place] = min(begins.get(place, to), to)  # offsets of a new topic are lower
                brokers.consumer.incremental_unassign([brokers.at(*place)])  # a seek is refused here
                brokers.consumer.incremental_assign([brokers.at(*place, to)])
            except FeedError as fault:
                self._log.fault = fault
            except brokers.kafka.KafkaException as fault:
                self._log.fail(f"{named(place)}: {error.str()} ({text_of(fault)})")
        elif error.code() in brokers.transient or (
            # A consumer looks for a group in any case.
            error.code() == codes.GROUP_AUTHORIZATION_FAILED and self._options["consumer_group"] is None
        ):
            self._log.counts["broker_errors"] += 1
        else:
            self._log.fail(f"{named(place)}: {error.str()}")

    def is_over(self) -> bool:
        """Tells whether nothing more is to be read, or given."""
        ending = self._ending
        if ending.is_stopped or ending.is_full(self._log.counts["messages"]):
            return True
        if ending.left_s() <= 0:
            if ending.is_late:
                return True
            self._is_patient = False  # nothing comes: what waits is given
            return not self.partitions.is_waiting
        return self._options["until_end"] and self.partitions.are_ended


def text_of(error: Any) -> str:
    """The text of a KafkaException."""
    return str(error.args[0].str() if error.args and hasattr(error.args[0], "str") else error)
