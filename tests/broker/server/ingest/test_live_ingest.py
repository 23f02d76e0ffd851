"""A whole broker over real sockets: loading while it serves, arrivals, restarts, roles, stops."""

import asyncio
from pathlib import Path

import pytest

from broker.message.record import scan_records
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder
from broker.server.configuration.settings import Settings
from broker.server.controller import BrokerController
from broker.server.ingest import compiling, loader
from tests.support.send_frames import send_frame

pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
ROUND = 32


class Live:
    """A broker and a producer that pipelines."""

    def __init__(self, folder: Path, **properties: str) -> None:
        values = {
            "storePathRootDir": str(folder / "store"),
            "mappedFileSizeCommitLog": str(1 << 20),
            "maxHashSlotNum": "1000",
            "maxIndexNum": "4000",
            **properties,
        }
        self.controller = BrokerController(Settings(values), listen=[("127.0.0.1", 0)])
        self.decoder = FrameDecoder()
        self.sent = 0

    async def __aenter__(self) -> "Live":
        await self.controller.start()
        host, _, port = self.controller.addresses[0].rpartition(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        return self

    async def __aexit__(self, *failure: object) -> None:
        self.writer.close()
        await self.controller.close()

    @property
    def figures(self):
        return self.controller.context.ingest

    async def round(self, **fields: str) -> list[RemotingCommand]:
        """Send a round at once; the responses, in the order of the requests."""
        numbers = range(self.sent, self.sent + ROUND)
        self.sent += ROUND
        # Of one length: the number of frames in a read is estimated by the first one.
        frames = [send_frame(number, e="0", body=b"x" * 100, **fields) for number in numbers]
        self.writer.write(b"".join(frames))
        answers: list[RemotingCommand] = []
        while len(answers) < ROUND:
            data = await asyncio.wait_for(self.reader.read(1 << 16), 30)
            assert data, "the broker closed the connection"
            answers += self.decoder.feed(data)
        by_opaque = {answer.opaque: answer for answer in answers}
        assert all(answer.code == 0 for answer in answers), answers[0].remark
        return [by_opaque[number] for number in numbers]

    async def until_active(self) -> None:
        while self.figures.state != "active":
            assert self.figures.state in ("waiting", "loading"), self.figures.state
            await self.round()


@pytest.fixture(autouse=True)
def by_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings decide, whatever the mode of the suite is."""
    monkeypatch.delenv(loader.FORCE_VARIABLE, raising=False)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch, warm: None) -> None:
    """The first reads with several frames load ingest, without a child process."""
    monkeypatch.setattr(loader, "START_SENDS", 2 * ROUND)
    monkeypatch.setattr(compiling.CompilingChild, "run", lambda child: None)


async def pull(address: str, offset: int, suspend_ms: int = 0) -> RemotingCommand:
    client = RemotingClient()
    ext = {
        "consumerGroup": "G1",
        "topic": "Orders",
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": "*",
        "subVersion": "0",
    }
    try:
        return await client.call(address, request(RequestCode.PULL_MESSAGE, ext), 60_000)
    finally:
        await client.close()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_offsets_continue_while_the_path_changes(run, tmp_path, eager, flush: str) -> None:
    async def main() -> None:
        async with Live(tmp_path, flushDiskType=flush) as live:
            offsets = [answer.ext_fields["queueOffset"] for answer in await live.round()]
            await live.until_active()
            before = live.figures.frames
            for _ in range(5):
                answers = await live.round()
            offsets += [answer.ext_fields["queueOffset"] for answer in answers]
            assert live.figures.frames > before
            assert offsets == [str(number) for number in (*range(32), *range(live.sent)[-32:])]
            found = await pull(live.controller.addresses[0], live.sent - 1)
            (last,) = scan_records(found.body_bytes())
            assert last.queue_offset == live.sent - 1

    run(main())


def test_a_suspended_pull_is_answered_by_a_vectorized_send(run, tmp_path, eager) -> None:
    async def main() -> None:
        async with Live(tmp_path) as live:
            await live.until_active()
            address = live.controller.addresses[0]
            waiting = asyncio.create_task(pull(address, live.sent, 30_000))
            while not len(live.controller.context.holds):
                await asyncio.sleep(0)
            before = live.figures.frames
            await live.round()
            assert live.figures.frames > before
            answer = await asyncio.wait_for(waiting, 30)
            assert answer.code == 0
            assert answer.body

    run(main())


def test_stored_messages_outlive_a_restart(run, tmp_path, eager) -> None:
    async def main() -> None:
        async with Live(tmp_path) as live:
            await live.until_active()
            await live.round()
            sent = live.sent
        async with Live(tmp_path) as live:
            assert live.figures.state == "waiting"
            assert live.controller.store.get_max_offset("Orders", 0) == sent
            answers = await live.round()
            assert answers[0].ext_fields["queueOffset"] == str(sent)

    run(main())


def test_a_broker_stops_while_ingest_is_loading(run, tmp_path, eager, monkeypatch) -> None:
    async def main() -> None:
        async with Live(tmp_path) as live:
            started = asyncio.Event()
            loop = asyncio.get_running_loop()

            def wait_for_stop(child: compiling.CompilingChild) -> None:
                loop.call_soon_threadsafe(started.set)
                while not child.stopped:
                    pass

            monkeypatch.setattr(compiling.CompilingChild, "run", wait_for_stop)
            while live.figures.state == "waiting":
                await live.round()
            await asyncio.wait_for(started.wait(), 30)
        assert live.figures.state == "loading"

    run(main())


@pytest.mark.parametrize(
    "properties",
    [
        {"vectorizedIngestEnable": "false"},
        {"brokerRole": "SLAVE", "brokerId": "1"},
        {"brokerRole": "SYNC_MASTER", "minInSyncReplicas": "2"},
    ],
    ids=str,
)
def test_these_brokers_offer_no_read(run, tmp_path, properties: dict[str, str]) -> None:
    async def main() -> None:
        async with Live(tmp_path, **properties) as live:
            assert live.figures.state == "off"

    run(main())


def test_a_broker_without_the_extra_starts_as_before(run, tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(loader, "REQUIRED", ("numpy", "no_such_package"))

    async def main() -> None:
        async with Live(tmp_path) as live:
            assert live.figures.state == "unavailable: not installed: no_such_package"
            await live.round()
            assert live.controller.context.server.ingest is None

    caplog.set_level("INFO")
    run(main())
    assert "ingest" not in caplog.text


def test_the_environment_turns_it_off(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(loader.FORCE_VARIABLE, "plain")

    async def main() -> None:
        async with Live(tmp_path) as live:
            assert live.figures.state == "off"

    run(main())
