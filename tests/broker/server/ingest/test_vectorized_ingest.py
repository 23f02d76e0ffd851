"""Vectorized ingest and the plain path leave the same responses, files, counters and arrivals."""

import random
import struct

import pytest

pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from broker.common.topic import PERM_READ
from broker.message.batch import encode_batch
from broker.remoting.ingest import LEAST_FRAMES
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import encode_frame
from broker.server.ingest.vectorized_ingest import MAX_ROWS
from broker.server.metrics.message_type import FIFO, NUMS
from tests.support.desk import Desk
from tests.support.send_frames import (
    batch_frame,
    hostile_batch,
    hostile_batches,
    hostile_items,
    items_of,
    raw_item,
    send_fields,
    send_frame,
    unusual_frame,
)
from tests.support.stores import make_inner


def orders(desk: Desk) -> None:
    """One topic, whose queues have been sent to before."""
    desk.topic("Orders")
    for queue_id in range(4):
        desk.send(queue_id=queue_id)


def stream(rng: random.Random, frames: int, unusual: float) -> bytes:
    """Frames, a share of which are not ordinary."""
    return b"".join(
        rng.choice((unusual_frame, hostile_batch))(rng, number)
        if rng.random() < unusual
        else ordinary_frame(rng, number)
        for number in range(frames)
    )


def ordinary_frame(rng: random.Random, number: int) -> bytes:
    """A single message, or a batch."""
    rocketmq = rng.random() < 0.3
    if rng.random() < 0.7:
        return send_frame(number, rocketmq=rocketmq)
    code = rng.choice((RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2))
    items = items_of(number, rng.choice((1, 2, 5, 20)))
    return batch_frame(number, items, code=code, rocketmq=rocketmq)


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


def turns_of(rng: random.Random, reads: list[tuple[int, bytes]], most: int) -> list[list]:
    """Let up to ``most`` consecutive reads arrive in one turn."""
    turns = []
    while reads:
        size = rng.randrange(1, most + 1)
        turns.append(reads[:size])
        reads = reads[size:]
    return turns


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


@pytest.mark.parametrize("rocketmq", [False, True])
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_ordinary_batches_take_the_vectorized_path(compare, rocketmq, flush, watched) -> None:
    reads = [
        (peer, b"".join(batch_frame(n, items_of(n, 16), rocketmq=rocketmq) for n in range(8)))
        for peer in range(3)
    ]
    outcome = compare(reads, orders, watched=watched, flushDiskType=flush)
    assert outcome.taken == 3 * 8 * 16


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_batch_cut_at_any_byte_has_the_same_effect(compare, flush) -> None:
    data = batch_frame(1, items_of(1, 3)) + send_frame(2)
    reads = [(0, part) for at in range(1, len(data)) for part in (data[:at], data[at:])]
    outcome = compare(reads, orders, least_frames=1, flushDiskType=flush)
    assert outcome.taken > 3 * len(data)


@pytest.mark.parametrize("rocketmq", [False, True])
def test_any_changed_byte_of_a_message_has_the_same_effect(compare, rng, rocketmq) -> None:
    body = encode_batch(items_of(4, 2))
    reads = []
    for at in range(len(body)):
        for value in (rng.choice((0, 1, 2, 128, 255)), body[at] ^ 1 << rng.randrange(8)):
            changed = body[:at] + bytes((value,)) + body[at + 1 :]
            frame = batch_frame(at, changed, rocketmq=rocketmq)
            reads.append((len(reads) % 90, send_frame(1) + frame + batch_frame(2, items_of(2, 1))))
    compare(reads, orders, least_frames=1)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_hostile_batches_have_the_same_effect(compare, flush) -> None:
    batches = [batch_frame(1, **fields) for fields in hostile_batches()]
    for item in hostile_items():
        for items in ((item,), (raw_item(), item), (item, raw_item())):
            batches.append(batch_frame(2, b"".join(items)))
    batches.append(batch_frame(3, b"\0"))
    reads = [(n % 90, send_frame(5) + data + batch_frame(6)) for n, data in enumerate(batches)]
    outcome = compare(reads, orders, least_frames=1, flushDiskType=flush)
    assert outcome.taken >= len(batches)


TEXTS = st.binary(max_size=40) | st.sampled_from([b"", b"UNIQ_KEY\x01k\x02TAGS\x01t\x02"])
ITEMS = st.builds(raw_item, st.binary(max_size=90), TEXTS, magic=st.sampled_from([0, 0, 0, 1]))
BATCHES = st.lists(ITEMS, max_size=5).map(b"".join) | st.integers(1, 40).map(
    lambda count: encode_batch(items_of(count, count))
)


@settings(
    max_examples=12,
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate],  # two stores per example: shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(batches=st.lists(BATCHES, min_size=20, max_size=60), cut=st.integers(1, 9_000))
def test_any_batches_have_the_same_effect(compare, batches, cut) -> None:
    data = b"".join(batch_frame(number, body) for number, body in enumerate(batches))
    reads = [(0, data[at : at + cut]) for at in range(0, len(data), cut)]
    compare(reads, orders, least_frames=1)


def test_a_batch_rolls_the_log_where_the_plain_path_does(compare) -> None:
    rng = random.Random(9)
    data = b"".join(
        batch_frame(n, items_of(n, rng.randrange(1, 60), rng.randrange(1, 900))) for n in range(60)
    )
    outcome = compare(reads_of(rng, [data], least=60_000), orders, least_frames=1)
    assert outcome.taken > 500
    assert sum(name.startswith("commitlog/") for name in outcome.files) > 4


def test_a_batch_beyond_a_table_takes_the_plain_path(compare) -> None:
    key = b"UNIQ_KEY\x01k"
    many = raw_item(b"", key) * (MAX_ROWS + 1)
    most = raw_item(b"", key) * (MAX_ROWS - 1)
    first = batch_frame(1, most) + batch_frame(2, many) + batch_frame(3) + send_frame(4)
    outcome = compare([(0, first)], orders, least_frames=1)
    assert outcome.taken == MAX_ROWS - 1 + 4 + 1
    long = batch_frame(5, items_of(1, 40, 2_000))
    assert compare([(0, long)], orders, least_frames=1).taken == 0


@pytest.mark.parametrize("seed", range(4))
def test_mixed_traffic_leaves_the_same_bytes(compare, seed: int) -> None:
    rng = random.Random(seed)
    streams = [stream(rng, 120, unusual) for unusual in (0, 0.02, 0.1, 0.5)]
    flush = ("ASYNC_FLUSH", "SYNC_FLUSH")[seed % 2]
    outcome = compare(reads_of(rng, streams), orders, watched=seed > 1, flushDiskType=flush)
    assert outcome.taken > 100


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_single_sends_of_many_connections_take_the_vectorized_path(compare, flush: str) -> None:
    """One frame per connection and turn; every third connection is IPv6."""
    turns = [[(peer, send_frame(64 * turn + peer)) for peer in range(64)] for turn in range(5)]
    outcome = compare(turns, orders, flushDiskType=flush)
    assert outcome.taken == 320 - LEAST_FRAMES + 1  # the first ones were served where they arrived
    assert outcome.calls == 5


@pytest.mark.parametrize("seed", range(6))
def test_turns_of_mixed_traffic_leave_the_same_bytes(compare, seed: int) -> None:
    rng = random.Random(200 + seed)
    streams = [stream(rng, 50, rng.choice((0, 0, 0.02, 0.1, 0.5))) for _ in range(12)]
    reads = reads_of(rng, streams, least=rng.choice((1, 400)))
    outcome = compare(
        turns_of(rng, reads, rng.choice((3, 12, 40))),
        orders,
        watched=seed > 3,
        least_frames=rng.choice((1, LEAST_FRAMES)),
        flushDiskType=("ASYNC_FLUSH", "SYNC_FLUSH")[seed % 2],
    )
    assert outcome.taken > 100


@pytest.mark.parametrize("seed", range(4))
def test_hostile_bytes_in_a_turn_have_the_same_effect(compare, seed: int) -> None:
    rng = random.Random(300 + seed)
    streams = []
    for number in range(10):
        data = bytearray(stream(rng, 30, 0.05))
        for _ in range(rng.randrange(4) if number % 2 else 0):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 34, 92, 255, rng.randrange(256)))
        streams.append(bytes(data))
    turns = turns_of(rng, reads_of(rng, streams, least=rng.choice((1, 2_000))), 20)
    assert compare(turns, orders, least_frames=rng.choice((1, LEAST_FRAMES))).taken > 50


def test_turns_larger_than_the_tables_leave_the_same_bytes(compare) -> None:
    """Connections and queues need more than one call, and the records more than one file."""

    def prepare(desk: Desk) -> None:
        for number in range(3):
            desk.topic(f"T{number}", queues=200)
            for queue_id in range(200):
                desk.send(f"T{number}", queue_id=queue_id)

    rng = random.Random(11)
    turn = [
        (peer, send_frame(peer, b=f"T{peer % 3}", e=str(rng.randrange(200)), body=b"y" * size))
        for peer, size in ((peer, rng.choice((1, 100, 2_000))) for peer in range(1_100))
    ]
    outcome = compare([turn], prepare)
    assert outcome.taken > 1_100 - 2 * LEAST_FRAMES
    assert outcome.calls > 4


def test_files_roll_at_the_same_records(compare) -> None:
    """The log has files of 256 KiB, a queue 1,000 units per file, the index 4,000 entries."""
    rng = random.Random(5)
    streams = [
        b"".join(send_frame(n, body=bytes(rng.randrange(20, 90)), e="0") for n in range(1_400)),
        b"".join(send_frame(n, body=b"x" * rng.randrange(1, 3_000)) for n in range(800)),
    ]
    outcome = compare(reads_of(rng, streams, least=10_000), orders, least_frames=8)
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


@pytest.mark.parametrize("level", ["soon", "", "99999999999"])
def test_unusual_delay_levels_take_the_plain_path(compare, level: str) -> None:
    raw = f"{send_fields(7)['i']}DELAY\x01{level}\x02"
    frames = [send_frame(n) for n in range(64)]
    for n in range(0, 64, 16):
        frames[n + 7], frames[n + 15] = send_frame(n, i=raw), batch_frame(n, i=raw)
    assert 0 < compare([(0, b"".join(frames))], orders).taken <= 56


@pytest.mark.parametrize("rocketmq", [False, True])
@pytest.mark.parametrize("size", [32_000, 100_000])
def test_sends_with_long_headers_have_the_same_effect(compare, rocketmq: bool, size: int) -> None:
    """Headers of more and of less than 64 KiB, with properties that fit or not."""
    pairs = "".join(f"{number:x}\x01v\x02" for number in range(size // 7))
    frames = [send_frame(n, rocketmq=rocketmq) for n in range(64)]
    for n in range(7, 64, 16):
        raw = send_fields(n)["i"] + pairs
        frames[n] = send_frame(n, i=raw, rocketmq=rocketmq)
    assert 0 < compare([(0, b"".join(frames))], orders).taken <= 64


def test_sends_without_a_body_take_the_plain_path(compare) -> None:
    frames = [send_frame(n) for n in range(64)]
    for n in range(7, 64, 16):
        ext = send_fields(n)
        frames[n] = encode_frame(RemotingCommand(code=310, opaque=n, version=479, ext_fields=ext))
    outcome = compare([(0, b"".join(frames))], orders)
    assert 0 < outcome.taken <= 60
    assert outcome.replies[0].count(b"the message has no body") == 4


def test_topics_that_need_the_plain_path_get_it(compare) -> None:
    def prepare(desk: Desk) -> None:
        orders(desk)
        desk.topic("ReadOnly", perm=PERM_READ)
        desk.topic("Multi", topic_filter_type="MULTI_TAG")
        desk.topic("Batch", attributes={"queue.type": "BatchCQ"})
        for name in ("ReadOnly", "Multi", "Batch"):
            desk.send(name)

    topics = ("Orders", "Multi", "ReadOnly", "Batch", "Orders", "Orders")
    frames = (send_frame, batch_frame)
    data = b"".join(
        frames[n // 8 % 2](n, b=topics[n % len(topics)], e="0")  # type: ignore[operator]
        for n in range(90)
    )
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
