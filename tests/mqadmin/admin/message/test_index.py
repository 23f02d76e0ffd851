"""Queries by key: hits, and the order of pages."""

import pytest

from broker.errors import ProtocolError
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import MAGIC_V1, body_crc, encode_record, scan_records
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


def answer(to, *messages, code=0, remark=None):
    ext = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
    return response(to, code, remark, ext, b"".join(map(encode_record, messages)))


def reply(*messages, code=0, remark=None):
    command = answer(request(12), *messages, code=code, remark=remark)
    return Reply("b:1", RequestCode.QUERY_MESSAGE, command)


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

    def test_a_response_cut_to_its_size_leads_to_its_oldest_time(self):
        """Our broker limits the bytes of a response; the remark of a shortened one shows that."""
        hits = BrokerHits("a", "b:1")
        remark = "cut to 2 of 9 messages: narrow the time range"
        assert hits.take(reply(message(5), message(6), remark=remark), QUESTION) == 5

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


@pytest.mark.parametrize(
    ("question", "name"),
    [
        (QUESTION, "key 42"),
        (KeyQuestion(topic="t", key="42", unique=True), "uniqKey 42"),
        (KeyQuestion(topic="t", key="42", queue_id=0), "key 42 in queue 0"),
        (KeyQuestion(topic="t", key="42", tags="A || B"), "key 42 with tag A || B"),
        (
            KeyQuestion(topic="t", key="42", queue_id=3, tags="A"),
            "key 42 in queue 3 with tag A",
        ),
    ],
)
def test_a_question_is_named_with_its_conditions(question, name) -> None:
    assert question.name == name


@pytest.mark.parametrize(
    ("queue_id", "tags", "places"),
    [(None, "*", [1, 2, 3]), (1, "*", [1, 2]), (None, "A", [1, 3]), (1, "A", [1]), (9, "A", [])],
)
def test_queue_and_tag_select_hits_and_do_not_count_as_collisions(queue_id, tags, places) -> None:
    question = KeyQuestion(topic="t", key="42", queue_id=queue_id, tags=tags)
    hits = BrokerHits("a", "b:1")
    found = []
    for number, (queue, tag) in enumerate([(1, "A"), (1, "B"), (2, "A")], 1):
        one = message(number)
        one.queue_id = queue
        one.properties_raw = encode_properties({"KEYS": "42", "TAGS": tag})
        found.append(one)
    hits.take(reply(*found), question)
    assert sorted(hits.records) == places
    assert hits.collisions == set()


def test_a_broker_that_fails_has_its_error_and_the_others_their_hits(
    cluster, broker_a, broker_b
) -> None:
    broker_a.store("t", keys="42")
    broker_b.store("t", keys="42")
    admin = cluster.admin()
    route = admin.routes.get("t")
    broker_b.down = True
    first, second = ask_index(admin, route, QUESTION)
    assert (len(first.records), first.error) == (1, None)
    assert (second.error.kind, second.error.target) == ("unreachable", "broker-b")


def test_a_response_that_cannot_be_decoded_is_an_error_of_its_broker(cluster, broker_a) -> None:
    broker_a.store("t", keys="42")
    honest = broker_a.on_12

    def cut(header, command):
        ext, body = honest(header, command)
        return ext, body[:-5]

    broker_a.on_12 = cut
    admin = cluster.admin()
    (hits,) = ask_index(admin, admin.routes.get("t"), QUESTION)
    assert hits.error.kind == "protocol"
    assert not hits.records


def test_one_broker_of_a_route_can_be_selected(cluster, broker_a, broker_b) -> None:
    broker_a.store("t", keys="42")
    broker_b.store("t", keys="42")
    admin = cluster.admin()
    route = admin.routes.get("t")
    (hits,) = ask_index(admin, route, KeyQuestion(topic="t", key="42", broker="broker-b"))
    assert (hits.broker_name, len(hits.records)) == ("broker-b", 1)
    assert ask_index(admin, route, KeyQuestion(topic="t", key="42", broker="gone")) == []


def test_a_second_with_more_than_a_batch_is_reported_as_more(cluster, broker_a) -> None:
    """The index knows whole seconds: the window cannot be moved into one."""
    for _ in range(INDEX_BATCH + 10):
        broker_a.store("t", keys="42")
    admin = cluster.admin()
    question = KeyQuestion(topic="t", key="42", max_items=1_000)
    (hits,) = ask_index(admin, admin.routes.get("t"), question)
    assert hits.more
    assert len(hits.records) == INDEX_BATCH


def cut_responses(broker, size):
    """Let a fake broker return the newest ``size`` hits of each response only."""
    honest = broker.handle

    def handle(command):
        whole = honest(command)
        if command.code != RequestCode.QUERY_MESSAGE or whole.code:
            return whole
        found = list(scan_records(whole.body_bytes()))
        kept = found[-size:]
        remark = None
        if len(kept) < len(found):
            remark = f"cut to {len(kept)} of {len(found)} messages: narrow the time range"
        return answer(command, *kept, remark=remark)

    broker.handle = handle


def test_the_rest_of_a_response_that_was_too_large_is_requested(cluster, broker_a) -> None:
    cut_responses(broker_a, 7)
    stored = []
    for _ in range(50):
        cluster.clock.advance(300)
        stored.append(broker_a.store("t", keys="42").physical_offset)
    admin = cluster.admin()
    question = KeyQuestion(topic="t", key="42", max_items=64)
    (hits,) = ask_index(admin, admin.routes.get("t"), question)
    assert sorted(hits.records) == stored
    assert not hits.more


def test_a_second_with_more_than_a_response_holds_is_reported_as_more(cluster, broker_a) -> None:
    cut_responses(broker_a, 7)
    for _ in range(10):
        broker_a.store("t", keys="42")
    admin = cluster.admin()
    question = KeyQuestion(topic="t", key="42", max_items=64)
    (hits,) = ask_index(admin, admin.routes.get("t"), question)
    assert (len(hits.records), hits.more) == (7, True)


def test_the_number_of_requests_for_a_key_is_bounded(
    cluster, broker_a, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqadmin.admin.message.index.MAX_PAGES", 2)
    for _ in range(3 * INDEX_BATCH):
        cluster.clock.advance(1_000)
        broker_a.store("t", keys="42")
    admin = cluster.admin()
    question = KeyQuestion(topic="t", key="42", max_items=1_000)
    (hits,) = ask_index(admin, admin.routes.get("t"), question)
    assert hits.more
    assert len(cluster.asked(RequestCode.QUERY_MESSAGE)) == 2


def test_every_cut_of_a_response_is_an_error_or_whole_messages() -> None:
    whole = b"".join(map(encode_record, (message(1), message(2))))
    one = len(encode_record(message(1)))
    ext = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
    for length in range(len(whole)):
        hits = BrokerHits("a", "b:1")
        command = response(request(12), 0, None, ext, whole[:length])
        try:
            hits.take(Reply("b:1", RequestCode.QUERY_MESSAGE, command), QUESTION)
        except ProtocolError:
            assert length % one
        else:
            assert len(hits.records) == length // one
