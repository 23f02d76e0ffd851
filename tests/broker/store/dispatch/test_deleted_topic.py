"""Light queues of records whose topic was deleted, and of records from before their deletion."""

import shutil
from collections.abc import Callable

import pytest

from broker.message.record import scan_records
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from tests.support.stores import Stores, make_inner

LIGHT = "%LMQ%light"
OTHER = "%LMQ%other"


def light(number: int, topic: str = "TopicA") -> MessageExtBrokerInner:
    names = {"INNER_MULTI_DISPATCH": f"{LIGHT},{OTHER}", "KEYS": "k"}
    return make_inner(topic, body=b"%d" % number, properties=names)


def bodies(store: MessageStore, topic: str) -> list[bytes]:
    found = store.get_message(topic, 0, 0, 32).buffers
    return [message.body for message in scan_records(b"".join(found))]


def lose_queues(stores: Stores) -> None:
    shutil.rmtree(stores.root / "consumequeue")


Damage = Callable[[Stores], None]
after_a_start = pytest.mark.parametrize(
    "damage", [lambda stores: None, lose_queues], ids=["killed", "queues lost"]
)


@pytest.fixture
def light_stores(stores: Stores) -> Callable[..., MessageStore]:
    def start(**changes: object) -> MessageStore:
        return stores.start(stores.config(enable_multi_dispatch=True, enable_lmq=True, **changes))

    return start


def restart(stores: Stores, store: MessageStore, damage: Damage) -> MessageStore:
    stores.kill(store)
    damage(stores)
    return stores.start(store.config)


@after_a_start
def test_a_light_queue_keeps_the_messages_of_a_deleted_topic(
    stores: Stores, light_stores: Callable[..., MessageStore], damage: Damage
) -> None:
    store = light_stores()
    for number in range(3):
        store.put_message(light(number))
    assert store.delete_topics(["TopicA"]) == ["TopicA"]
    store.put_message(light(3, "TopicB"))
    for _ in range(2):
        assert not bodies(store, "TopicA")
        for name in (LIGHT, OTHER):
            assert bodies(store, name) == [b"0", b"1", b"2", b"3"]
        store = restart(stores, store, damage)


@after_a_start
def test_a_deleted_light_queue_stays_empty(
    stores: Stores, light_stores: Callable[..., MessageStore], damage: Damage
) -> None:
    store = light_stores()
    for number in range(3):
        store.put_message(light(number))
    assert store.delete_topics([LIGHT]) == [LIGHT]
    for lives in ([], [b"3"]):
        for _ in range(2):
            assert bodies(store, LIGHT) == lives
            assert bodies(store, OTHER) == bodies(store, "TopicA") == [b"0", b"1", b"2", *lives]
            store = restart(stores, store, damage)
        store.put_message(light(3))
        if lives:
            break


@pytest.mark.parametrize("deleted", ["TopicA", LIGHT])
def test_records_that_wait_for_a_flush_reach_the_queues_that_are_not_deleted(
    stores: Stores, light_stores: Callable[..., MessageStore], deleted: str
) -> None:
    store = light_stores(flush_disk_type="SYNC_FLUSH")
    store.put_message(light(0))
    store.flush()
    store.dispatch()
    store.put_message(light(1))
    assert store.delete_topics([deleted]) == [deleted]
    store.flush()
    store.dispatch()
    for _ in range(2):
        for name in ("TopicA", LIGHT, OTHER):
            assert bodies(store, name) == ([] if name == deleted else [b"0", b"1"])
        store = restart(stores, store, lambda stores: None)


@pytest.mark.parametrize("batch", [False, True])
def test_records_that_wait_for_a_flush_keep_their_keys(stores: Stores, batch: bool) -> None:
    """As those whose topic is deleted after the flush."""
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"))
    inners = [make_inner(body=b"%d" % number, properties={"KEYS": "k"}) for number in range(3)]
    if batch:
        store.put_messages(inners)
    else:
        for inner in inners:
            store.put_message(inner)
    store.delete_topics(["TopicA"])
    store.put_message(make_inner(body=b"new", properties={"KEYS": "k"}))
    store.flush()
    store.dispatch()
    found = store.query_message("TopicA", "k", 32, 0, 1 << 62).buffers
    assert [message.body for message in scan_records(b"".join(found))] == [b"0", b"1", b"2", b"new"]
    assert bodies(store, "TopicA") == [b"new"]
    assert store.queues() == {"TopicA": [0]}
