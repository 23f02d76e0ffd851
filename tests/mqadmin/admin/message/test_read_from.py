"""Reading from a position, against an embedded broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Message, Producer
from broker.common.clock import SystemClock
from broker.errors import ClientError
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.message.read_from import ReadFrom, read_from
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin

SMALL = {"mappedFileSizeCommitLog": "8388608", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminSession]:
    store: Path = tmp_path_factory.mktemp("read-from") / "store"
    with (
        BlockingEmbeddedBroker(str(store), SMALL) as broker,
        AdminSession([broker.namesrv_address], timeout_ms=60_000) as session,
    ):
        topics = TopicAdmin(session)
        topics.apply(topics.plan_create("T", queues=1))
        with Producer("fill", broker.namesrv_address) as producer:
            for number in range(10):
                producer.send(Message("T", b"%d" % number))
        yield session


def first(admin: AdminSession, question: ReadFrom) -> list[bytes]:
    steps = read_from(admin, question, lambda _: None, SystemClock())
    return [message.body for _, message in next(steps)]


def bodies(start: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, 10)]


def test_earliest_is_the_first_message_and_latest_none(admin: AdminSession) -> None:
    assert first(admin, ReadFrom(topic="T", start="earliest")) == bodies(0)
    assert first(admin, ReadFrom(topic="T", start="latest")) == []


def test_a_time_is_compared_exactly(admin: AdminSession) -> None:
    steps = read_from(admin, ReadFrom(topic="T", start="earliest"), lambda _: None, SystemClock())
    times = [message.store_timestamp for _, message in next(steps)]
    for wanted in (0, times[0], times[4], times[9], times[9] + 1):
        found = first(admin, ReadFrom(topic="T", start=wanted))
        assert len(found) == sum(time >= wanted for time in times)


def test_an_unknown_topic_is_an_error(admin: AdminSession) -> None:
    with pytest.raises(ClientError):
        first(admin, ReadFrom(topic="NoSuch"))
