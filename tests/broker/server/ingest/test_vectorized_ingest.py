"""Vectorized ingest and the plain path leave the same responses, files, counters and arrivals."""

import random
import struct

import pytest

from broker.common.topic import PERM_READ
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import encode_frame
from broker.server.metrics.message_type import FIFO, NUMS
from tests.support.desk import Desk
from tests.support.send_frames import send_fields, send_frame, unusual_frame
from tests.support.stores import make_inner


def orders(desk: Desk) -> None:
    """One topic, whose queues have been sent to before."""
    desk.topic("Orders")
    for queue_id in range(4):
        desk.send(queue_id=queue_id)


def stream(rng: random.Random, frames: int, unusual: float) -> bytes:
    """Frames, a share of which are not ordinary."""
    return b"".join(
        unusual_frame(rng, number)
        if rng.random() < unusual
        else send_frame(number, rocketmq=rng.random() < 0.3)
        for number in range(frames)
    )


def reads_of(rng: random.Random, streams: list[bytes], least: int = 1) -> list[tuple[int, bytes]]:
    """Cut the streams of several connections anywhere, in turn."""
    rest = dict(enumerate(streams))
    reads = []
    while rest:
        number = rng.choice(list(rest))
        size = least + rng.randrange(rng.choice((200, 30_000)))
        reads.append((number, rest[number][:size]))
        rest[number] = rest[number][size:]
        if not rest[number]:
            del rest[number]
    return reads


@pytest.mark.parametrize("rocketmq", [False, True])
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_ordinary_sends_take_the_vectorized_path(compare, rocketmq, flush, watched) -> None:
    reads = [
        (peer, b"".join(send_frame(64 * peer + n, rocketmq=rocketmq) for n in range(64)))
        for peer in range(3)
    ]
    outcome = compare(reads, orders, watched=watched, flushDiskType=flush)
    assert outcome.taken == 192
    assert outcome.expanded == (192 if watched else 0)


def test_the_long_form_takes_the_vectorized_path(compare) -> None:
    data = b"".join(send_frame(number, code=RequestCode.SEND_MESSAGE) for number in range(32))
    assert compare([(0, data)], orders).taken == 32


@pytest.mark.parametrize("seed", range(4))
def test_mixed_traffic_leaves_the_same_bytes(compare, seed: int) -> None:
    rng = random.Random(seed)
    streams = [stream(rng, 120, unusual) for unusual in (0, 0.02, 0.1, 0.5)]
    flush = ("ASYNC_FLUSH", "SYNC_FLUSH")[seed % 2]
    outcome = compare(reads_of(rng, streams), orders, watched=seed > 1, flushDiskType=flush)
    assert outcome.taken > 100


def test_files_roll_at_the_same_records(compare) -> None:
    """The log has files of 256 KiB, a queue 1,000 units per file, the index 4,000 entries."""
    rng = random.Random(5)
    streams = [
        b"".join(send_frame(n, body=bytes(rng.randrange(20, 90)), e="0") for n in range(1_400)),
        b"".join(send_frame(n, body=b"x" * rng.randrange(1, 3_000)) for n in range(800)),
    ]
    outcome = compare(reads_of(rng, streams, least=10_000), orders)
    assert outcome.taken > 1_500
    assert sum(name.startswith("commitlog/") for name in outcome.files) > 4
    assert sum(name.startswith("consumequeue/Orders/0/") for name in outcome.files) == 2
    assert sum(name.startswith("index/") for name in outcome.files) > 1


@pytest.mark.parametrize("seed", range(3))
def test_hostile_bytes_have_the_same_effect(compare, seed: int) -> None:
    rng = random.Random(100 + seed)
    streams = []
    for _ in range(6):
        data = bytearray(stream(rng, 40, 0.05))
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 34, 92, 255, rng.randrange(256)))
        streams.append(bytes(data))
    compare(reads_of(rng, streams, least=2_000), orders)


@pytest.mark.parametrize(
    "properties",
    [
        {"messageIndexEnable": "false"},
        {"enableMultiDispatch": "true", "enableLmq": "true"},
        {"enableConsumeQueueExt": "true"},
        {"regionId": 'r%d"\\ü', "brokerClusterName": "C2"},
        {"maxMessageSize": "300"},
        {"regionId": "1911191119"},  # a mark of reply_pieces: the plain path serves
        {"brokerIP1": "::1"},
    ],
    ids=str,
)
def test_settings_have_the_same_effect(compare, properties: dict[str, str]) -> None:
    rng = random.Random(7)
    reads = reads_of(rng, [stream(rng, 60, 0.05) for _ in range(2)], least=4_000)
    compare(reads, orders, **properties)


def test_topics_that_need_the_plain_path_get_it(compare) -> None:
    def prepare(desk: Desk) -> None:
        orders(desk)
        desk.topic("ReadOnly", perm=PERM_READ)
        desk.topic("Multi", topic_filter_type="MULTI_TAG")
        desk.topic("Batch", attributes={"queue.type": "BatchCQ"})
        for name in ("ReadOnly", "Multi", "Batch"):
            desk.send(name)

    topics = ("Orders", "Multi", "ReadOnly", "Batch", "Orders", "Orders")
    data = b"".join(send_frame(n, b=topics[n % len(topics)], e="0") for n in range(90))
    singly = b"".join(send_frame(n, b="Multi", e="0") for n in range(30))
    assert compare([(0, data), (1, singly)], prepare).taken >= 30


def test_a_deleted_topic_loses_the_records_that_wait_for_their_flush(compare) -> None:
    """Blocks of records are taken apart: only those of the deleted topic are dropped."""

    def prepare(desk: Desk) -> None:
        orders(desk)
        desk.topic("Other")
        desk.send("Other")

    names = ("Orders", "Other")
    data = b"".join(send_frame(n, b=names[n % 2], e="0") for n in range(40))
    delete = encode_frame(
        RemotingCommand(code=RequestCode.DELETE_TOPIC_IN_BROKER, ext_fields={"topic": "Other"})
    )
    compare([(0, data + delete + data)], prepare, flushDiskType="SYNC_FLUSH")


def test_no_frame_is_taken_while_puts_are_refused(compare) -> None:
    def prepare(desk: Desk) -> None:
        orders(desk)
        desk.store.flags.fence("another broker is the master")

    data = b"".join(send_frame(number) for number in range(20))
    assert compare([(0, data)], prepare).taken == 0


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_records_after_a_put_that_failed_in_a_new_file_have_its_offsets(compare, flush) -> None:
    def prepare(desk: Desk) -> None:
        orders(desk)
        broken = make_inner("Orders", 0, bytes(desk.store.log.capacity), flag=1 << 40)
        with pytest.raises(struct.error):
            desk.store.put_message(broken)

    data = b"".join(send_frame(number) for number in range(40))
    outcome = compare([(0, data)], prepare, flushDiskType=flush)
    assert outcome.taken == 40
    assert sum(name.startswith("commitlog/") for name in outcome.files) == 2


@pytest.mark.parametrize("exporter", ["DISABLE", "PROM"])
def test_metrics_count_messages_with_a_sharding_key(compare, exporter: str) -> None:
    """They are counted on the plain path: the loops do not count types."""
    ordinary = b"".join(send_frame(number) for number in range(30))
    keyed = b"".join(
        send_frame(number, i=send_fields(number)["i"] + "__SHARDINGKEY\x01k\x02")
        for number in range(30)
    )
    outcome = compare(
        [(0, ordinary), (0, keyed), (0, ordinary)], orders, metricsExporterType=exporter
    )
    counted = {name: value for name, value in outcome.counters.items() if FIFO in name}
    if exporter == "PROM":
        assert outcome.taken == 60
        assert counted[f"{NUMS[FIFO]}@Orders"][0] == 30
    else:
        assert outcome.taken == 90
        assert not counted
