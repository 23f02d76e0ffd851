"""The shared parts are those that the send processor itself uses at this moment."""

from broker.message.properties import encode_properties


def test_targets_are_live(desk) -> None:
    desk.topic("Orders")
    parts = desk.sends.parts
    assert "Orders" not in parts.targets
    desk.send()
    assert parts.targets["Orders"].queue_limit == 4
    desk.topic("Orders", queues=8)
    assert "Orders" not in parts.targets


def test_suffix_and_reply_follow_the_settings(make_desk) -> None:
    desk = make_desk(regionId="R1", brokerClusterName="C1")
    parts = desk.sends.parts
    expected = {"MSG_REGION": "R1", "TRACE_ON": "true", "CLUSTER": "C1"}
    assert parts.suffix == encode_properties(expected)
    assert b'"MSG_REGION":"R1"' in parts.reply % (0, 0, 0, b"key")
    assert parts.store_host == desk.context.store_host


def test_only_sends_that_wait_have_waiting_responses(make_desk) -> None:
    assert make_desk().sends.parts.flushed is None
    assert make_desk(flushDiskType="SYNC_FLUSH").sends.parts.flushed is not None


def test_stored_messages_are_counted(desk) -> None:
    desk.topic("Orders")
    desk.send()
    parts = desk.sends.parts
    before = desk.context.stats.put.value
    parts.add(parts.targets["Orders"], 100, 3)
    assert desk.context.stats.put.value == before + 3
