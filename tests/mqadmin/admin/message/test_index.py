"""Queries by key: hits, and the order of pages."""

import pytest

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import MAGIC_V1, body_crc, encode_record
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request, response
from broker.remoting.rpc.caller import Reply
from mqadmin.admin.message.index import (
    INDEX_BATCH,
    UNIQUE_BATCH,
    BrokerHits,
    KeyQuestion,
    ask_index,
    asked_number,
)

QUESTION = KeyQuestion(topic="t", key="42")


def message(number, *, topic="t", keys="42", uniq="", stored=None):
    properties = {"KEYS": keys, "UNIQ_KEY": uniq}
    return MessageExt(
        topic,
        b"x",
        encode_properties({name: text for name, text in properties.items() if text}),
        magic=MAGIC_V1,
        body_crc=body_crc(b"x"),
        physical_offset=number,
        store_timestamp=number if stored is None else stored,
    )


def reply(*messages, code=0):
    ext = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
    body = b"".join(map(encode_record, messages))
    return Reply("b:1", RequestCode.QUERY_MESSAGE, response(request(12), code, None, ext, body))


@pytest.mark.parametrize(
    ("one", "hit"),
    [
        (message(1), True),
        (message(1, keys="41 42 43"), True),
        (message(1, keys="421"), False),
        (message(1, keys="4 2"), False),
        (message(1, keys=""), False),
        (message(1, topic="T"), False),
        (message(1, keys="", uniq="42"), False),
    ],
)
def test_a_hit_carries_topic_and_whole_key(one, hit) -> None:
    assert QUESTION.has_key(one) is hit


def test_a_unique_question_looks_at_the_unique_key_only() -> None:
    unique = KeyQuestion(topic="t", key="42", unique=True)
    assert unique.has_key(message(1, keys="", uniq="42"))
    assert not unique.has_key(message(1, keys="42", uniq="41"))


def test_both_ends_of_the_window_belong_to_it() -> None:
    window = KeyQuestion(topic="t", key="42", begin_ms=10, end_ms=20)
    inside = [time for time in range(8, 23) if window.in_window(message(1, stored=time))]
    assert inside == list(range(10, 21))


@pytest.mark.parametrize(
    ("unique", "max_items", "asked"),
    [
        (False, 1, 2),
        (False, 63, 64),
        (False, 64, INDEX_BATCH),
        (False, 1000, INDEX_BATCH),
        (True, 10, 11),
        (True, 64, UNIQUE_BATCH),
    ],
)
def test_one_more_than_wanted_is_asked_for(unique, max_items, asked) -> None:
    question = KeyQuestion(topic="t", key="42", unique=unique, max_items=max_items)
    assert asked_number(question) == asked


class TestTake:
    def test_a_batch_that_is_not_full_is_the_end(self):
        hits = BrokerHits("a", "b:1")
        assert hits.take(reply(message(5), message(6)), QUESTION) is None
        assert sorted(hits.records) == [5, 6]
        assert not hits.more

    def test_nothing_found_is_the_end(self):
        hits = BrokerHits("a", "b:1")
        assert hits.take(reply(code=22), QUESTION) is None
        assert not hits.records

    def test_a_full_batch_leads_to_its_oldest_time(self):
        hits = BrokerHits("a", "b:1")
        batch = [message(number) for number in range(100, 100 + INDEX_BATCH)]
        assert hits.take(reply(*batch), QUESTION) == 100

    def test_enough_is_enough(self):
        question = KeyQuestion(topic="t", key="42", max_items=2)
        hits = BrokerHits("a", "b:1")
        assert hits.take(reply(message(1), message(2), message(3)), question) is None
        assert hits.more

    def test_the_same_message_twice_counts_once(self):
        hits = BrokerHits("a", "b:1")
        hits.take(reply(message(5)), QUESTION)
        hits.take(reply(message(5)), QUESTION)
        assert len(hits.records) == 1

    def test_misses_are_grouped_by_reason(self):
        question = KeyQuestion(topic="t", key="42", begin_ms=10)
        hits = BrokerHits("a", "b:1")
        hits.take(reply(message(5), message(20), message(21, keys="no")), question)
        assert (sorted(hits.records), hits.outside, hits.collisions) == ([20], [5], {21})


def test_the_request_widens_the_begin_by_the_second_the_index_drops(cluster, broker_a) -> None:
    broker_a.store("t", keys="42")
    seen = []
    honest = broker_a.on_12

    def look(header, command):
        seen.append((header.begin_timestamp, header.end_timestamp, header.unique_key_query))
        return honest(header, command)

    broker_a.on_12 = look
    admin = cluster.admin()
    route = admin.routes.get("t")
    ask_index(admin, route, KeyQuestion(topic="t", key="42", begin_ms=5_000, end_ms=9_000))
    ask_index(admin, route, KeyQuestion(topic="t", key="42", begin_ms=500, unique=True))
    assert seen == [(4_000, 9_000, None), (0, 2**63 - 1, True)]


def test_a_model_of_pages(cluster, broker_a, rng) -> None:
    """Whatever the times and batches, with one message per second nothing is lost or doubled."""
    admin = cluster.admin()
    wanted = []
    for _ in range(rng.randrange(50, 400)):
        cluster.clock.advance(1_000 + rng.randrange(3_000))
        key = rng.choice(["42", "42 x", "y", ""])
        stored = broker_a.store("t", rng.randrange(4), keys=key)
        if "42" in key:
            wanted.append(stored.physical_offset)
    broker_a.index_batch = 64
    (hits,) = ask_index(
        admin, admin.routes.get("t"), KeyQuestion(topic="t", key="42", max_items=10_000)
    )
    assert sorted(hits.records) == wanted
    assert not hits.more
