"""The examples of rocketmq-client.7 run against a broker, as they are printed."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumerConfig,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
)
from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.live_broker import until

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}

ROOT = Path(__file__).parents[2]


def examples() -> dict[str, str]:
    path = ROOT / "scripts" / "_man_client.py"
    spec = importlib.util.spec_from_file_location("_man_client", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.EXAMPLES)


EXAMPLES = examples()


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as both:
        yield both.namesrv_address


def run(title: str, namesrv: str, topic: str) -> dict[str, Any]:
    text = EXAMPLES[title].replace("127.0.0.1:9876", namesrv).replace('"T"', f'"{topic}"')
    space: dict[str, Any] = {}
    exec(compile(text, title, "exec"), space)
    return space


def received(namesrv: str, topic: str, count: int) -> list[bytes]:
    """The first messages of a topic, by a consumer group of this call."""
    bodies: list[bytes] = []

    def listener(messages: list[MessageExt], _: object) -> ConsumeConcurrentlyStatus:
        bodies.extend(message.body for message in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = PushConsumer(f"of_{topic}", namesrv, ConsumerConfig(consume_from_where=first))
    consumer.subscribe(topic)
    consumer.listen(listener)
    with consumer:
        until(lambda: len(bodies) >= count)
    return bodies


def test_an_example_has_about_ten_lines() -> None:
    assert set(EXAMPLES) == {
        *("Producer", "Push consumer", "Simple consumer (5.x brokers)", "Transaction", "pytest")
    }
    assert all(len(text.splitlines()) <= 11 for text in EXAMPLES.values())


def test_the_producer_stores_its_message(namesrv: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = run("Producer", namesrv, "Produced")
    assert capsys.readouterr().out.split()[0] == found["result"].msg_id
    assert received(namesrv, "Produced", 1) == [b"hello"]


def test_the_push_consumer_prints_messages_of_its_tags(
    namesrv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Producer("fill", namesrv) as producer:
        producer.send(Message("Pushed", b"other", tags="C"))
        consumer = run("Push consumer", namesrv, "Pushed")["consumer"]
        try:
            until(lambda: len(consumer.assignment()) > 0)
            producer.send(Message("Pushed", b"wanted", tags="B"))
            text = ""

            def is_printed() -> bool:
                nonlocal text
                text += capsys.readouterr().out
                return "wanted" in text

            until(is_printed)
        finally:
            consumer.shutdown()
    assert text == "Pushed b'wanted'\n"


def test_the_simple_consumer_acknowledges_its_messages(
    namesrv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Producer("fill", namesrv) as producer:
        producer.send(Message("Received", b"before"))  # creates the topic
        text = ""

        def is_received() -> bool:
            nonlocal text
            producer.send(Message("Received", b"job"))
            run("Simple consumer (5.x brokers)", namesrv, "Received")
            text += capsys.readouterr().out
            return "job" in text

        until(is_received)


def test_the_transaction_is_delivered(namesrv: str) -> None:
    run("Transaction", namesrv, "Paid")
    assert received(namesrv, "Paid", 1) == [b"paid"]


def test_the_pytest_example_passes(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(EXAMPLES["pytest"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "broker.testing", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
    )
    assert "1 passed" in done.stdout, done.stdout
