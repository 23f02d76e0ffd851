"""A stored message is sent again as its producer sent it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ClientError
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.message.record import BodyView
from mqadmin.message_row import MessageRow
from tests.support.live_broker import SMALL

BASE64 = BodyView(encoding="base64")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[MQAdmin]:
    with (
        BlockingEmbeddedBroker(str(tmp_path), SMALL) as broker,
        MQAdmin([broker.namesrv_address], timeout_ms=60_000) as admin,
    ):
        for topic in ("orders", "%DLQ%g"):
            admin.apply(admin.topic.plan_create(topic, read_queues=1, write_queues=1))
        yield admin


def stored(library: MQAdmin, topic: str, **properties: str) -> MessageRow:
    sent = library.message.send(
        topic, b"\0body", tags="A", keys=("k",), properties={"own": "1", **properties}
    )
    assert sent.offset_msg_id is not None
    return library.message.query_id(sent.offset_msg_id, body=BASE64).items[0]


def test_body_and_own_properties_are_kept(library: MQAdmin) -> None:
    row = stored(library, "orders")
    again = library.resend.send(library.resend.plan(row))
    assert again.offset_msg_id is not None
    copy = library.message.query_id(again.offset_msg_id, body=BASE64).items[0]
    assert copy.physical_offset != row.physical_offset
    assert (copy.topic, copy.body, copy.tags, copy.keys) == ("orders", row.body, "A", ["k"])
    assert (copy.uniq_key, copy.properties["own"]) == (row.uniq_key, "1")


def test_a_dead_letter_is_sent_to_its_origin_without_broker_properties(library: MQAdmin) -> None:
    row = stored(library, "%DLQ%g", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="0")
    plan = library.resend.plan(row)
    assert plan.record.topic == plan.message.topic == "orders"
    assert "RETRY_TOPIC" not in plan.message.properties
    assert "ORIGIN_MESSAGE_ID" not in plan.message.properties


def test_a_dead_letter_without_an_origin_needs_a_topic(library: MQAdmin) -> None:
    row = stored(library, "%DLQ%g")
    with pytest.raises(ClientError, match="original topic"):
        library.resend.plan(row)
    assert library.resend.plan(row, to="orders").message.topic == "orders"


def test_an_unknown_topic_is_refused(library: MQAdmin) -> None:
    with pytest.raises(ClientError, match="does not exist"):
        library.resend.plan(stored(library, "orders"), to="none")
