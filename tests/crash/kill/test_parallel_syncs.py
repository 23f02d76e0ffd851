"""Records that are gathered while the worker syncs queues, index and progress reach the log.

With the defaults this happens once a minute; here the worker syncs all the time. The log then
had holes, where one thread had gathered records during a long write of the other one.
"""

import threading
import time
from pathlib import Path

import pytest

from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.remoting.protocol.codes import RequestCode
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import verify
from tests.support.broker_process import BrokerProcess, RawPeer
from tests.support.send_frames import send_fields, send_frame

CONNECTIONS = 6
SECONDS = 3.0
SETTINGS = {
    "flushIntervalConsumeQueue": "5",
    "flushConsumeQueueThoroughInterval": "1",
    "flushConsumerOffsetInterval": "50",
    "flushDelayOffsetInterval": "50",
    "enableMultiDispatch": "true",
    "messageDelayLevel": "1s 2s",
}
BODY = b"8 KiB or so: " * 600
KINDS = ("", "", "DELAY\x011\x02", "WAIT\x01false\x02", "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02")

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def burst(first: int) -> list[bytes]:
    """Sends of each kind, as many as are gathered together."""
    frames = [
        send_frame(number, body=BODY, i=send_fields(number)["i"] + KINDS[number % len(KINDS)])
        for number in range(first, first + 15)
    ]
    items = encode_batch([Message("Orders", BODY), Message("Orders", BODY)])
    frames.append(send_frame(first + 15, code=RequestCode.SEND_BATCH_MESSAGE, body=items, m="true"))
    return frames


def send_bursts(peer: RawPeer, number: int, codes: list[int | None]) -> None:
    end = time.monotonic() + SECONDS
    frames = burst(number * 16)
    data = b"".join(frames)
    while time.monotonic() < end:
        peer.sendall(data)
        for _ in frames:
            answer = peer.read()
            codes.append(answer and answer.code)


@pytest.mark.parametrize("path", ["plain", "fast"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_no_record_is_lost_while_the_worker_syncs(tmp_path: Path, path: str, flush: str) -> None:
    if path == "fast":
        pytest.importorskip("numba", reason="vectorized ingest needs the extra 'fast'")
    codes: list[int | None] = []
    with BrokerProcess(
        tmp_path,
        {**SETTINGS, "flushDiskType": flush, "mappedFileSizeCommitLog": str(256 << 20)},
        environment={"MQ_INGEST": path},
    ) as broker:
        peers = [broker.connect() for _ in range(CONNECTIONS)]
        senders = [
            threading.Thread(target=send_bursts, args=(peer, number, codes))
            for number, peer in enumerate(peers)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        for peer in peers:
            peer.close()
        assert broker.stop() == 0
    assert set(codes) == {0}
    summary = verify(StoreDirectory(broker.store)).summary
    assert (summary.lost_messages, summary.kinds) == (0, {})
    assert summary.records >= len(codes)
