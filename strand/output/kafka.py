"""A sink that sends an output's records to a topic of Kafka. Needs the extra ``kafka``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from strand.brief import several
from strand.errors import ConfigurationError
from strand.feeds.live.kafka import checked_servers
from strand.lazy import imported
from strand.output.emitted import EmittedRecords
from strand.validate import is_between, mapping, one_of, text

_OWN_SETTINGS: Final = frozenset(("bootstrap.servers", "metadata.broker.list", "enable.idempotence", "acks"))
#: Time between two polls of the producer while its queue is full, s.
_LOOK_S: Final = 0.1
#: The time that an end waits for the word on messages that it has dropped, s.
_PURGED_S: Final = 1.0
#: librdkafka counts ms in 32 bits, and takes 0 for no limit.
_LONGEST_S: Final = 2_147_483


class KafkaSink:
    """Sends the records of an output as messages: ``out={"bars": KafkaSink("broker:9092", "bars")}``.

    A message's key is the record's symbol, or ``#`` and the symbol's index if it has no name. So Kafka keeps a symbol's
    messages in one partition, in order. The producer is idempotent: within one run no message is lost, doubled or out
    of order. A run that is repeated sends its messages again.

    While the queue of librdkafka is full, ``write`` waits, and so does publishing. ``close`` waits until the brokers
    have acknowledged all messages.

    Args:
        servers: ``HOST:PORT`` of a broker, or several with commas.
        topic: The topic's name.
        form: ``"json"``: an object of the record's columns, as tables have them. Prices and sizes are exact numbers in
            natural units, times ns since 1970-01-01 UTC, undefined values null; this needs pyarrow. ``"record"``: the
            bytes of the record, exact integers as the output declares them.
        timeout_s: The time that ``write`` and ``close`` wait for brokers that acknowledge nothing, in s: 0.001 to
            2,147,483.
        config: Further settings of librdkafka, as for TLS and passwords. ``partitioner`` is that of Kafka's own
            client, ``murmur2_random``, if it is not given.

    Raises:
        ConfigurationError: If an option cannot work.
        MissingExtraError: If confluent-kafka is not installed.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        form: Literal["json", "record"] = "json",
        timeout_s: float = 30.0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._kafka = imported("confluent_kafka", "kafka", "a Kafka sink")
        servers = checked_servers(servers)
        if not text("topic", topic):
            raise ConfigurationError("topic", "it is empty")
        self._topic, self._where = topic, f"kafka://{servers}/{topic}"
        self._is_json = one_of("form", form, ("json", "record")) == 0
        if not is_between(timeout_s, 0.001, _LONGEST_S):
            raise ConfigurationError(
                "timeout_s", f"{timeout_s!r} is not a number of seconds from 0.001 to {_LONGEST_S:,}"
            )
        self._timeout_s = float(timeout_s)
        config = mapping("config", config or {}, "{'security.protocol': 'SSL'}")
        if own := sorted(_OWN_SETTINGS.intersection(config)):
            raise ConfigurationError("config", f"{own[0]} is set by the sink itself")
        settings = {"partitioner": "murmur2_random", "linger.ms": 5, "message.timeout.ms": round(timeout_s * 1e3)}
        settings |= {**config, "bootstrap.servers": servers, "enable.idempotence": True, "acks": "all"}
        try:
            self._producer = self._kafka.Producer(settings)
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            raise ConfigurationError("config", f"librdkafka refuses it: {error}") from error
        self._encode = msgspec.json.Encoder(decimal_format="number").encode
        self._failed: str | None = None
        #: Messages that the brokers have acknowledged.
        self.delivered = 0

    def write(self, batch: EmittedRecords) -> None:
        """Sends records. Raises OSError where a message before could not be delivered."""
        names, ids = batch.symbols, batch["instrument_id"].tolist()
        values = self._objects(batch) if self._is_json else [record.tobytes() for record in batch]
        for key, value in zip(ids, values, strict=True):
            name = names[key] if key < len(names) else ""
            self._send((name or f"#{key}").encode(), value)
        self._producer.poll(0)
        self._check()

    def close(self) -> None:
        """Waits until all messages are acknowledged. Raises OSError where one could not be delivered."""
        left = self._producer.flush(self._timeout_s)
        try:
            self._check()
            if left:
                what = several(left, "message")
                raise OSError(f"{self._where}: {what} were not acknowledged in {self._timeout_s:g} s")
        finally:
            if left:
                self.abort()

    def abort(self) -> None:
        """Drops the messages that have not been acknowledged."""
        self._producer.purge()
        self._producer.flush(_PURGED_S)  # each message holds the sink until it is told what became of it

    def _objects(self, batch: EmittedRecords) -> list[bytes]:
        import pyarrow as pa

        table = batch.to_arrow(prices="decimal")
        columns = [
            column.cast(pa.int64()).to_pylist() if pa.types.is_temporal(column.type) else column.to_pylist()
            for column in table.columns
        ]
        return [self._encode(dict(zip(table.column_names, row, strict=True))) for row in zip(*columns, strict=True)]

    def _send(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key=key, on_delivery=self._told)
                return
            except BufferError:  # its queue is full
                self._producer.poll(_LOOK_S)
                self._check()
            except self._kafka.KafkaException as error:
                raise OSError(f"{self._where}: {error}") from error

    def _told(self, error: Any, _: Any) -> None:
        """Notes what became of a message."""
        if error is None:
            self.delivered += 1
        elif self._failed is None:
            self._failed = str(error.str())

    def _check(self) -> None:
        if self._failed is not None:
            raise OSError(f"{self._where}: a message could not be delivered: {self._failed}")
