from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.client import Message, Producer
from broker.errors import ClientError
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.dlq.in_doubt import find_sent
from mqadmin.admin.dlq.ledger import SENDING, SENT, Entry
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin

SMALL = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "500", "maxIndexNum": "2000"}
NOW_MS = 4_000_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("doubt") / "store"), SMALL) as running:
        yield running


@pytest.fixture
def admin(broker: BlockingEmbeddedBroker) -> Iterator[AdminSession]:
    with AdminSession([broker.namesrv_address], timeout_ms=30_000) as session:
        yield session


@pytest.fixture
def sent(broker: BlockingEmbeddedBroker, admin: AdminSession) -> Callable[[str], Any]:
    def send(topic: str) -> Any:
        topics = TopicAdmin(admin)
        topics.apply(topics.plan_create(topic, queues=1))
        with Producer("doubt", broker.namesrv_address) as producer:
            return producer.send(Message(topic, b"x"))

    return send


def entry(topic: str, at: int) -> Entry:
    return Entry(id="7", state=SENDING, at=at, topic=topic, key="k")


def test_a_message_in_doubt_that_a_broker_has_becomes_sent(
    admin: AdminSession, sent: Callable[[str], Any]
) -> None:
    place = sent("Doubted")
    found = find_sent(admin, entry("Doubted", 1), place.msg_id, original_id="other", now_ms=NOW_MS)
    assert found is not None
    assert (found.id, found.state, found.key, found.at) == ("7", SENT, "k", NOW_MS)
    assert found.offset_msg_id == place.offset_msg_id


def test_the_original_and_older_messages_do_not_count(
    admin: AdminSession, sent: Callable[[str], Any]
) -> None:
    place = sent("Original")
    own = place.offset_msg_id
    assert (
        find_sent(admin, entry("Original", 1), place.msg_id, original_id=own, now_ms=NOW_MS) is None
    )
    later = entry("Original", NOW_MS)
    assert find_sent(admin, later, place.msg_id, original_id=None, now_ms=NOW_MS) is None


def test_a_broker_that_cannot_be_asked_leaves_the_doubt(
    broker: BlockingEmbeddedBroker, sent: Callable[[str], Any]
) -> None:
    place = sent("Unasked")
    nowhere = {broker.address: "127.0.0.1:1"}
    with (
        AdminSession([broker.namesrv_address], timeout_ms=5_000, address_map=nowhere) as admin,
        pytest.raises(ClientError, match="in doubt"),
    ):
        find_sent(admin, entry("Unasked", 1), place.msg_id, original_id=None, now_ms=NOW_MS)
