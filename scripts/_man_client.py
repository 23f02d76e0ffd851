"""The man page of the client library: public classes, settings with defaults, an example each."""

import inspect
from collections.abc import Callable, Iterator
from enum import Enum

import msgspec

import broker.client
from broker.client import ClientConfig, ConsumerConfig, ProducerConfig

EXAMPLES = (
    (
        "Producer",
        """from broker.client import Message, Producer

with Producer("orders", "127.0.0.1:9876") as producer:
    result = producer.send(Message("T", b"hello", tags="A", keys="order-1"))
    print(result.msg_id, result.message_queue, result.queue_offset)""",
    ),
    (
        "Push consumer",
        """from broker.client import ConsumeConcurrentlyStatus, PushConsumer

def listener(messages, context):
    for message in messages:
        print(message.topic, message.body)
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

consumer = PushConsumer("billing", "127.0.0.1:9876")
consumer.subscribe("T", "A || B")
consumer.listen(listener)          # listen_orderly: in order per queue
consumer.start()""",
    ),
    (
        "Simple consumer (5.x brokers)",
        """from broker.client import SimpleConsumer

consumer = SimpleConsumer("jobs", "127.0.0.1:9876")
consumer.subscribe("T")
with consumer:
    for message in consumer.receive(16, invisible_ms=60_000):
        print(message.body)
        consumer.ack(message)""",
    ),
    (
        "Transaction",
        """from broker.client import LocalTransactionState, Message, TransactionProducer

class Listener:
    def execute_local_transaction(self, message, argument):
        return LocalTransactionState.COMMIT_MESSAGE
    def check_local_transaction(self, message):
        return LocalTransactionState.COMMIT_MESSAGE

with TransactionProducer("payments", "127.0.0.1:9876", Listener()) as producer:
    producer.send_in_transaction(Message("T", b"paid"))""",
    ),
    (
        "pytest",
        """from broker.client import Message

def test_orders(rocketmq_producer, rocketmq_topic, rocketmq_receive):
    rocketmq_producer.send(Message(rocketmq_topic, b"hello"))
    assert [one.body for one in rocketmq_receive(rocketmq_topic, 1)] == [b"hello"]""",
    ),
)


def _paragraphs(text: str) -> Iterator[str]:
    for part in inspect.cleandoc(text).split("\n\n"):
        if not part.startswith((">>>", "::", "    ", "**Source")):
            yield " ".join(part.replace("``", "").split())


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return "none" if value in ("", (), None) else str(value)


OWN_PACKAGES = ("broker.client", "broker.remoting.rpc")


def client_sections(roff: Callable[[str], str]) -> Iterator[str]:
    """The page after its opening; ``roff`` escapes text."""
    yield ".SH CLASSES"
    for name in broker.client.__all__:
        found = getattr(broker.client, name)
        if inspect.isclass(found) and found.__module__.startswith(OWN_PACKAGES):
            first = next(_paragraphs(found.__doc__ or ""), "")
            yield from (".TP", f".B {roff(name)}", roff(first))
    yield ".SH SETTINGS"
    for kind in (ClientConfig, ProducerConfig, ConsumerConfig):
        yield f".SS {kind.__name__}"
        for text in _paragraphs(kind.__doc__ or ""):
            yield from (".PP", roff(text))
        for field in msgspec.structs.fields(kind):
            given = field.default
            if given is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
                given = field.default_factory()
            yield from (".TP", f".B {roff(field.name)}", f"Default {roff(_default(given))}.")
    yield ".SH EXAMPLES"
    for title, code in EXAMPLES:
        yield from (f".SS {roff(title)}", ".nf", ".RS")
        yield from (roff(line) for line in code.splitlines())
        yield from (".RE", ".fi")
