"""OrderInfoTable: blocks, counts, acknowledged prefixes, and consumerOrderInfo.json."""

import json

import pytest

from broker.errors import RemoteProtocolError
from broker.server.pop.order_info import (
    CLEAN_AFTER_MS,
    ILLEGAL,
    NOTHING_TO_COMMIT,
    OrderInfo,
    OrderInfoTable,
)
from broker.store.format.config import (
    CONSUMER_ORDER_INFO,
    ConfigFile,
    decode_config,
    encode_config,
)
from tests.support.json_mutations import failures

NOW = 1_700_000_000_000
KEY = ("T", "G", 0)


def batch(offsets=(5, 6, 9), pop_time=NOW, attempt=None) -> OrderInfo:
    return OrderInfo(
        pop_time=pop_time,
        invisible_time=10_000,
        offsets=list(offsets),
        attempt_id=attempt,
        last_consume_ms=pop_time,
    )


@pytest.fixture
def table() -> OrderInfoTable:
    table = OrderInfoTable()
    table.update(*KEY, batch())
    return table


def test_a_queue_is_blocked_until_its_batch_is_done_or_over(table) -> None:
    assert table.blocked(*KEY, NOW + 9_999, None)
    assert not table.blocked(*KEY, NOW + 10_000, None)
    assert not table.blocked("T", "G", 1, NOW, None)
    for offset in (5, 6, 9):
        table.commit(*KEY, offset, NOW)
    assert not table.blocked(*KEY, NOW, None)


def test_the_offset_to_commit_is_after_the_acknowledged_prefix(table) -> None:
    assert table.commit(*KEY, 6, NOW) == 5
    assert table.commit(*KEY, 5, NOW) == 9
    assert table.commit(*KEY, 9, NOW) == 10


def test_foreign_acks_are_illegal_or_have_nothing_to_commit(table) -> None:
    assert table.commit(*KEY, 7, NOW) == ILLEGAL
    assert table.commit(*KEY, 5, NOW - 1) == NOTHING_TO_COMMIT
    assert table.commit("T", "G", 3, 5, NOW) == 6


def test_counts_grow_for_messages_that_come_again(table) -> None:
    again = table.update(*KEY, batch((6, 9, 10), NOW + 10_000))
    assert again.consumed == {6: 1, 9: 1}
    third = table.update(*KEY, batch((6, 9, 10), NOW + 20_000))
    assert third.consumed == {6: 2, 9: 2, 10: 1}


def test_the_same_attempt_does_not_count_and_is_not_blocked() -> None:
    table = OrderInfoTable()
    table.update(*KEY, batch(attempt="a"))
    assert not table.blocked(*KEY, NOW, "a")
    assert table.blocked(*KEY, NOW, "b")
    assert table.update(*KEY, batch(attempt="a")).consumed == {}


def test_a_changed_time_blocks_longer(table) -> None:
    assert table.change_visible(KEY, 6, NOW, NOW + 60_000)
    assert table.blocked(*KEY, NOW + 59_999, None)
    assert not table.change_visible(KEY, 6, NOW - 1, NOW)
    assert not table.change_visible(KEY, 8, NOW, NOW)


def test_queues_are_freed_once_when_their_time_is_over(table) -> None:
    assert table.next_free_ms() == NOW + 10_000
    assert table.free_keys(NOW + 9_999) == []
    table.change_visible(KEY, 5, NOW, NOW + 20_000)
    assert table.free_keys(NOW + 10_000) == []
    assert table.free_keys(NOW + 20_000) == [KEY]
    assert table.next_free_ms() is None


def test_an_acknowledged_batch_is_not_freed_by_time(table) -> None:
    for offset in (5, 6, 9):
        table.commit(*KEY, offset, NOW)
    assert table.next_free_ms() is None


def test_a_cleared_queue_is_free(table) -> None:
    table.clear(*KEY)
    assert (len(table), table.next_free_ms()) == (0, None)
    assert not table.blocked(*KEY, NOW, None)


def test_deleted_and_old_batches_are_cleaned(table) -> None:
    table.update("T", "G", 7, batch())
    table.update("Gone", "G", 0, batch())
    table.clean(NOW, lambda topic, group: 0 if topic == "Gone" else 4)
    assert [(key, queue_id) for key, queue_id, _ in table] == [("T@G", 0)]
    table.clean(NOW + CLEAN_AFTER_MS + 1, lambda topic, group: 4)
    assert len(table) == 0


def test_many_changes_keep_the_heap_small(table) -> None:
    for number in range(10_000):
        table.change_visible(KEY, 5, NOW, NOW + 20_000 + number)
    assert len(table.heap) <= 66


def test_the_file_of_the_specification_survives_a_round_trip() -> None:
    table = OrderInfoTable()
    content = ConfigFile(name=CONSUMER_ORDER_INFO, table={
        "TopicA@GroupB": {0: {
            "a": "att-1", "cm": 5, "i": 60_000, "l": NOW, "o": [100, 1, 2],
            "oc": {101: 1}, "ot": {102: NOW + 90_000}, "popTime": NOW,
        }}
    })  # fmt: skip
    encoded = encode_config(content)
    table.load(decode_config(CONSUMER_ORDER_INFO, encoded).table)
    info = table.get("TopicA", "GroupB", 0)
    assert info is not None
    assert (info.offsets, info.next_offset) == ([100, 101, 102], 101)
    again = ConfigFile(name=CONSUMER_ORDER_INFO, table=table.snapshot())
    written = encode_config(again)
    assert decode_config(CONSUMER_ORDER_INFO, written) == decode_config(
        CONSUMER_ORDER_INFO, encoded
    )
    assert '"o":[\n' in written


@pytest.mark.parametrize(
    "wire",
    [{"o": ["x"]}, {"o": [1], "popTime": "x"}, {"o": [1], "a": 5}, {"o": [1], "ot": {1: "x"}}],
)
def test_invalid_entries_are_refused(wire) -> None:
    with pytest.raises(RemoteProtocolError, match="T@G: invalid values"):
        decode_config(CONSUMER_ORDER_INFO, json.dumps({"table": {"T@G": {0: wire}}}))


def test_a_file_with_a_value_of_another_type_is_loaded_or_refused() -> None:
    entry = {
        "a": "att-1", "cm": 5, "i": 60_000, "l": NOW, "o": [100, 1, 2],
        "oc": {"101": 1}, "ot": {"102": NOW + 90_000}, "popTime": NOW,
    }  # fmt: skip

    def load(document: object) -> None:
        table = OrderInfoTable()
        table.load(decode_config(CONSUMER_ORDER_INFO, json.dumps(document)).table)
        for _, _, info in table:
            assert info.blocks(None, NOW) in (True, False)
            assert isinstance(info.next_offset, int)
        encode_config(ConfigFile(name=CONSUMER_ORDER_INFO, table=table.snapshot()))

    accepted, wrong = failures(load, {"table": {"T@G": {"0": entry}}})
    assert wrong == []
    assert accepted > 0


def test_a_model_of_acks_and_changed_times(rng) -> None:
    """Block, offset to commit and freed queues follow from the state of each message."""
    for _ in range(40):
        table = OrderInfoTable()
        offsets = sorted(rng.sample(range(100, 140), rng.randint(1, 8)))
        table.update(*KEY, batch(offsets))
        due = dict.fromkeys(offsets, NOW + 10_000)
        now = NOW
        freed = False
        for _ in range(30):
            now += rng.randrange(2_000)
            action = rng.choice(["ack", "ack", "change", "time"])
            offset = rng.choice([*offsets, 99, 141])
            if action == "ack":
                committed = table.commit(*KEY, offset, NOW)
                if offset not in offsets:
                    assert committed == ILLEGAL
                else:
                    due.pop(offset, None)
                    first = next((one for one in offsets if one in due), offsets[-1] + 1)
                    assert committed == first
                    freed = False
            elif action == "change":
                changed = table.change_visible(KEY, offset, NOW, now + 5_000)
                assert changed is (offset in offsets)
                if offset in due:
                    due[offset] = now + 5_000
                freed = freed and not changed
            end = max(due.values(), default=None)
            assert table.blocked(*KEY, now, None) is (end is not None and now < end)
            keys = table.free_keys(now)
            if end is None or now < end:
                assert keys == []
            elif not freed:
                assert keys in ([KEY], [])
                freed = True


def test_a_queue_without_a_batch_is_blocked_while_the_table_is_full(monkeypatch) -> None:
    """A batch that cannot be recorded would be delivered twice at once."""
    monkeypatch.setattr("broker.server.pop.order_info.MAX_BATCHES", 2)
    table = OrderInfoTable()
    for queue_id in range(2):
        table.update("T", "G", queue_id, batch())
    assert table.blocked("T", "G", 2, NOW, None)
    assert not table.blocked("T", "G", 0, NOW + 10_000, None)
    table.clear("T", "G", 1)
    assert not table.blocked("T", "G", 2, NOW, None)


def test_entries_past_the_limit_are_not_loaded(monkeypatch, table) -> None:
    table.update("T", "G", 1, batch())
    content = table.snapshot()
    monkeypatch.setattr("broker.server.pop.order_info.MAX_BATCHES", 1)
    again = OrderInfoTable()
    again.load(content)
    assert len(again) == len(list(again)) == 1
    assert not again.changed


def test_a_loaded_batch_blocks_and_is_freed_as_before_the_restart(table) -> None:
    table.commit(*KEY, 5, NOW)
    table.change_visible(KEY, 6, NOW, NOW + 30_000)
    again = OrderInfoTable()
    again.load(table.snapshot())
    assert again.snapshot() == table.snapshot()
    assert again.blocked(*KEY, NOW + 29_999, None)
    assert again.commit(*KEY, 6, NOW) == 9
    assert again.free_keys(NOW + 30_000) == [KEY]


def test_a_batch_without_messages_is_not_kept() -> None:
    table = OrderInfoTable()
    table.load({"T@G": {0: {"popTime": NOW, "o": []}}})
    assert (len(table), table.next_free_ms()) == (0, None)
