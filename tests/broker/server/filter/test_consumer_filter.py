"""SQL92 filters of groups: registered, kept while offline, in the Bloom bits of messages."""

import json
import random
from typing import Final

import pytest

from broker.common.clock import ManualClock
from broker.common.subscription import build_subscription
from broker.filter.bloom import bit_positions, bloom_shape, has_bits
from broker.message.properties import encode_properties
from broker.server.filter.consumer_filter import FILTER_BYTES, ConsumerFilterManager
from broker.store.format.config import CONSUMER_FILTER, ConfigFile, decode_config, encode_config
from broker.store.format.consumequeue import ConsumeQueueExtUnit

DAY_MS = 24 * 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def filters(clock) -> ConsumerFilterManager:
    return ConsumerFilterManager(clock, bloom_shape(), DAY_MS)


def sql(topic: str, expression: str, version: int = 1):
    return build_subscription(topic, expression, "SQL92", sub_version=version)


def raw(**properties: str) -> bytes:
    return encode_properties(properties)


def test_only_sql_filters_are_kept(filters) -> None:
    filters.register("G1", [build_subscription("A", "x || y"), sql("B", "n > 1")])
    assert filters.get("A", "G1") is None
    assert filters.get("B", "G1").expression == "n > 1"
    assert filters.get("B", "G2") is None


def test_a_message_has_the_bits_of_the_groups_that_accept_it(filters) -> None:
    filters.register("G1", [sql("A", "n > 1")])
    filters.register("G2", [sql("A", "n > 5")])
    bits = filters.calculate_bit_map("A", raw(n="3"))
    assert len(bits) == 14
    assert has_bits(bits, bit_positions("G1#A"))
    assert not has_bits(bits, bit_positions("G2#A"))
    assert filters.calculate_bit_map("A", raw()) == bytes(14)
    assert filters.calculate_bit_map("Other", raw(n="3")) == b""


def test_bits_decide_only_about_messages_stored_after_the_filter_was_born(filters, clock) -> None:
    clock.advance(1_000)
    filters.register("G1", [sql("A", "n > 1")])
    data = filters.get("A", "G1")
    born = clock.now_ms()
    none = bytes(14)
    assert data.may_match(ConsumeQueueExtUnit(0, born, none))
    assert not data.may_match(ConsumeQueueExtUnit(0, born + 1, none))
    assert data.may_match(ConsumeQueueExtUnit(0, born + 1, b""))
    assert data.may_match(ConsumeQueueExtUnit(0, born + 1, bytes(13)))
    accepted = filters.calculate_bit_map("A", raw(n="2"))
    assert data.may_match(ConsumeQueueExtUnit(0, born + 1, accepted))


def test_a_newer_expression_replaces_an_older_one_and_is_born_again(filters, clock) -> None:
    filters.register("G1", [sql("A", "n > 1", 5)])
    clock.advance(10)
    filters.register("G1", [sql("A", "n > 2", 4)])
    assert filters.get("A", "G1").expression == "n > 1"
    filters.register("G1", [sql("A", "n > 1", 6)])
    assert filters.get("A", "G1").born_ms == clock.now_ms() - 10
    filters.register("G1", [sql("A", "n > 2", 7)])
    assert filters.get("A", "G1").expression == "n > 2"
    assert filters.get("A", "G1").born_ms == clock.now_ms()


def test_an_expression_that_does_not_compile_removes_the_old_one(filters) -> None:
    filters.register("G1", [sql("A", "n > 1", 5)])
    filters.register("G1", [sql("A", "n >", 6)])
    assert filters.get("A", "G1") is None


def test_a_filter_dies_with_its_group_or_topic_and_revives(filters, clock) -> None:
    filters.register("G1", [sql("A", "n > 1"), sql("B", "n > 1")])
    filters.register("G1", [sql("A", "n > 1")])
    assert filters.get("B", "G1").dead_ms == clock.now_ms()
    assert filters.get("A", "G1").dead_ms == 0
    filters.unregister("G1")
    assert filters.get("A", "G1").dead_ms == clock.now_ms()
    assert has_bits(filters.calculate_bit_map("A", raw(n="3")), bit_positions("G1#A"))
    clock.advance(5)
    filters.register("G1", [sql("A", "n > 1")])
    assert filters.get("A", "G1").dead_ms == 0


def test_dead_filters_are_removed_after_a_day(filters, clock) -> None:
    filters.register("G1", [sql("A", "n > 1")])
    filters.unregister("G1")
    clock.advance(DAY_MS - 1)
    filters.clean()
    assert filters.get("A", "G1") is not None
    clock.advance(1)
    filters.clean()
    assert filters.get("A", "G1") is None


def test_memory_is_bounded_dead_filters_first(clock) -> None:
    filters = ConsumerFilterManager(
        clock, bloom_shape(), DAY_MS, limit_bytes=3 * FILTER_BYTES + 1500
    )
    for group in ("G1", "G2", "G3"):
        filters.register(group, [sql("A", "n > 1")])
    filters.register("G4", [sql("A", "n > 1")])
    assert filters.get("A", "G4") is None
    filters.unregister("G2")
    filters.register("G4", [sql("A", "n > 1")])
    assert filters.get("A", "G4") is not None
    assert filters.get("A", "G2") is None


WIRE: Final = {
    "filterDataByTopic": {
        "TopicA": {
            "groupFilterData": {
                "GroupB": {
                    "bloomFilterData": {"bitNum": 112, "bitPos": [103, 32, 24]},
                    "bornTime": 1_600_000_000_000,
                    "clientVersion": 1_600_000_000_001,
                    "consumerGroup": "GroupB",
                    "dead": False,
                    "deadTime": 0,
                    "expression": "a > 3",
                    "expressionType": "SQL92",
                    "topic": "TopicA",
                }
            },
            "topic": "TopicA",
        }
    }
}


class TestFile:
    """consumerFilter.json in Java's format."""

    def load(self, filters, wire) -> None:
        filters.load(decode_config(CONSUMER_FILTER, json.dumps(wire)))

    def test_it_comes_back_as_java_wrote_it_with_its_groups_offline(self, filters, clock) -> None:
        self.load(filters, WIRE)
        data = filters.get("TopicA", "GroupB")
        assert (data.expression, data.version) == ("a > 3", 1_600_000_000_001)
        assert data.dead_ms == clock.now_ms() - 30_000
        written = json.loads(encode_config(filters.to_file()))
        expected = json.loads(json.dumps(WIRE))
        entry = expected["filterDataByTopic"]["TopicA"]["groupFilterData"]["GroupB"]
        entry |= {"dead": True, "deadTime": clock.now_ms() - 30_000}
        assert written == expected

    def test_other_bloom_settings_drop_the_whole_file(self, clock) -> None:
        filters = ConsumerFilterManager(clock, bloom_shape(5, 32), DAY_MS)
        self.load(filters, WIRE)
        assert filters.get("TopicA", "GroupB") is None

    @pytest.mark.parametrize(
        "change",
        [{"expression": "a >"}, {"expression": None}, {"expression": "a" * 100_000}],
    )
    def test_a_bad_expression_is_left_out(self, filters, change) -> None:
        wire = json.loads(json.dumps(WIRE))
        wire["filterDataByTopic"]["TopicA"]["groupFilterData"]["GroupB"] |= change
        self.load(filters, wire)
        assert filters.get("TopicA", "GroupB") is None

    def test_a_file_without_filters_is_fine(self, filters) -> None:
        filters.load(ConfigFile(name=CONSUMER_FILTER))
        assert json.loads(encode_config(filters.to_file())) == {"filterDataByTopic": {}}


def test_bits_never_exclude_a_message_that_the_filter_accepts(filters, clock) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    groups = [f"G{number}" for number in range(20)]
    for group in groups:
        filters.register(group, [sql("A", f"n > {dice.randrange(100)}")])
    for _ in range(300):
        number = str(dice.randrange(100))
        unit = ConsumeQueueExtUnit(
            0, clock.now_ms() + 1, filters.calculate_bit_map("A", raw(n=number))
        )
        for group in groups:
            data = filters.get("A", group)
            if data.evaluate({"n": number}):
                assert data.may_match(unit)
