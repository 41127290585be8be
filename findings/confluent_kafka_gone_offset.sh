#!/bin/sh
# confluent-kafka: where an offset is gone, the messages that are still there are skipped, too
#
# A topic keeps its messages for a limited time. A reader that was away for longer asks for an offset that is gone.
# By default (auto.offset.reset=largest) librdkafka then goes on at the end of the partition, behind all messages that it still has.
# poll() gives neither them nor an error: a line of the log tells it. "earliest" passes over the gap alone, "error" is an error of poll().
# Seen with confluent-kafka 2.16.1, whose own brokers for tests keep 5 MB here.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet confluent-kafka==2.16.1
venv/bin/python - <<'END'
import confluent_kafka as kafka

owner = kafka.Producer({"test.mock.num.brokers": 1})
(broker,) = owner.list_topics(timeout=10).brokers.values()
servers = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
producer = kafka.Producer(servers)
for number in range(100):
    producer.produce("ticks", b"%d " % number + bytes(100_000), partition=0)
    producer.flush(30)


def read(**settings):
    """What poll() gives from offset 10 on in some seconds: numbers of messages, and errors."""
    consumer = kafka.Consumer({**servers, "group.id": "reader", **settings})
    first, behind = consumer.get_watermark_offsets(kafka.TopicPartition("ticks", 0), timeout=10)
    consumer.assign([kafka.TopicPartition("ticks", 0, 10)])
    given = [message for message in (consumer.poll(0.1) for _ in range(100)) if message is not None]
    consumer.close()
    numbers = [int(message.value().split()[0]) for message in given if message.error() is None]
    errors = [message.error().name() for message in given if message.error() is not None]
    print(settings or "default:", f"{len(numbers)} of the {behind - first} messages that are there,", "errors:", errors)
    return numbers, errors, list(range(first, behind))


print("confluent-kafka", kafka.__version__)
numbers, errors, there = read()
assert 10 < there[0] < 99 and numbers == [] and errors == []
numbers, errors, there = read(**{"auto.offset.reset": "earliest"})
assert numbers == there and errors == []
numbers, errors, there = read(**{"auto.offset.reset": "error"})
assert numbers == [] and errors == ["_AUTO_OFFSET_RESET"]
END
