"""No response leaves a socket before the records it may acknowledge are in the log."""

import asyncio
import random
from pathlib import Path

import pytest

from broker.remoting import connection as remoting_connection
from broker.remoting.connection import Connection
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.remoting.server import RemotingServer
from broker.store.logfile.mapped_file import MappedFile
from tests.support.desk import Desk
from tests.support.remoting_peer import FakeTransport
from tests.support.send_frames import batch_frame, send_frame, unusual_frame

READS = 60


class CheckingTransport(FakeTransport):
    """Compares the log with each response at the moment it is written."""

    def __init__(self, desk: Desk, peer: tuple[str, int]) -> None:
        super().__init__(peer)
        self.desk = desk
        self.decoder = FrameDecoder()
        self.stored = 0

    def write(self, data: bytes) -> None:
        super().write(data)
        log = self.desk.store.log
        assert log.appended_offset == log.max_offset
        for answer in self.decoder.feed(bytes(data)):
            for message_id in (answer.ext_fields or {}).get("msgId", "").split(","):
                if message_id and not answer.code:
                    assert log.record_at(int(message_id[-16:], 16)) is not None
                    self.stored += 1


def sent_back(desk: Desk, number: int) -> bytes:
    """A message that a consumer sends back; it becomes a delayed one."""
    command = RemotingCommand(
        code=RequestCode.CONSUMER_SEND_MSG_BACK,
        opaque=number,
        version=479,
        ext_fields={"offset": "0", "group": "G", "delayLevel": "3", "originTopic": "Orders"},
    )
    return encode_frame(command)


def a_frame(desk: Desk, rng: random.Random, number: int) -> bytes:
    """A frame of a random kind; most are ordinary sends."""
    kind = rng.randrange(10)
    if kind == 0:
        return unusual_frame(rng, number)
    if kind == 1:
        return batch_frame(number)
    if kind == 2:
        return sent_back(desk, number)
    return send_frame(number, rocketmq=kind == 3, body=bytes(rng.choice((10, 900, 20_000))))


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_records_are_in_the_log_when_a_response_is_written(
    tmp_path: Path, rng: random.Random, flush: str
) -> None:
    desk = Desk(tmp_path, {"flushDiskType": flush})
    desk.topic("Orders", 4)
    desk.context.groups.add_preset_groups()
    desk.deferred = True

    async def main() -> int:
        server = RemotingServer(desk.handlers, clock=desk.clock, name="broker")
        server.share.before_write = desk.store.log.gather()
        desk.context.server = server
        peers = []
        for number in range(4):
            transport = CheckingTransport(desk, ("10.0.0.1", 4_000 + number))
            connection = transport.connection = Connection(server)
            connection.connection_made(transport)
            peers.append((connection, transport))
        number = 0
        for _ in range(READS):
            for connection, _ in peers:
                frames = []
                for _ in range(rng.choice((1, 1, 5, 40))):
                    number += 1
                    frames.append(a_frame(desk, rng, number % 60_000))
                connection.data_received(b"".join(frames))
            for _ in range(4):
                await asyncio.sleep(0)
                desk.end_turn()
        await server.close()
        return sum(transport.stored for _, transport in peers)

    assert asyncio.run(main()) > READS * 4
    desk.store.shutdown()


def test_the_records_of_a_read_are_written_with_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, {"mappedFileSizeCommitLog": str(1 << 20)})
    desk.topic("Orders", 4)
    desk.deferred = True
    writes: list[int] = []
    write = MappedFile.write

    def note(file: MappedFile, position: int, data: bytes) -> None:
        if "commitlog" in file.path:
            writes.append(len(data))
        write(file, position, data)

    monkeypatch.setattr(MappedFile, "write", note)
    # Else a machine under load defers a part of the read to the next iteration.
    monkeypatch.setattr(remoting_connection, "monotonic_s", lambda: 0.0)

    async def main() -> None:
        server = RemotingServer(desk.handlers, clock=desk.clock, name="broker")
        server.share.before_write = desk.store.log.gather()
        transport = CheckingTransport(desk, ("10.0.0.1", 4_000))
        connection = transport.connection = Connection(server)
        connection.connection_made(transport)
        connection.data_received(b"".join(send_frame(n, body=bytes(1_000)) for n in range(40)))
        await asyncio.sleep(0)
        assert transport.stored == 40
        await server.close()

    asyncio.run(main())
    assert writes == [desk.store.log.max_offset]
    desk.store.shutdown()
