"""Timers on our broker and on the Java broker in turn: accepted per second, lateness, bursts.

Each broker stores timer messages that are due at an even rate, then a burst that is due in one
second, then recalls. Lateness is the store time of the delivered copy minus the end of its slot:
the precision (1 s) is not part of it. Run on an idle machine: both brokers share its cores with
the client.

With ``--pending`` each broker starts with so many further messages in its wheel, due later than the
measurement: one store in Java's format is made for both. ``--store`` keeps it for the next run.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from broker.message.record import scan_records
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

sys.path.insert(0, str(Path(__file__).parent))
from local_broker import LocalBroker
from pending_timers import fill

TOPIC = "BenchTimers"
QUEUES = 4
WINDOW = 64
PRECISION_MS = 1_000
LOG_FILE_BYTES = 256 << 20


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def start(name: str, folder: Path) -> LocalBroker:
    """Start a broker without name server."""
    settings = {"mappedFileSizeCommitLog": LOG_FILE_BYTES, "recallMessageEnable": "true"}
    return LocalBroker(name, folder, settings)


class Load:
    """The client of one broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = RemotingClient()
        self._number = 0

    async def call(self, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        """One request; anything but success ends the measurement."""
        answer = await self._client.call(self._address, request(code, fields, body), 30_000)
        if answer.code != 0:
            sys.exit(f"error: request {code}: code {answer.code}: {answer.remark}")
        return answer

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def make_topic(self) -> None:
        """Create the topic."""
        fields = {"topic": TOPIC, "defaultTopic": "TBW102", "perm": "6", "order": "false"}
        fields |= {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
        fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
        await self.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    async def send(self, deliver_ms: int) -> str:
        """Store one timer message of 100 bytes; its recall handle."""
        self._number += 1
        number = self._number
        pairs = {"UNIQ_KEY": f"{number:032X}", "WAIT": "true", "TIMER_DELIVER_MS": deliver_ms}
        fields = dict.fromkeys("fhj", "0") | dict.fromkeys("km", "false")
        fields |= {"a": "bench", "b": TOPIC, "c": "TBW102", "d": str(QUEUES)}
        fields |= {"e": str(number % QUEUES), "g": str(now_ms())}
        fields["i"] = "".join(f"{key}\1{value}\2" for key, value in pairs.items())
        answer = await self.call(RequestCode.SEND_MESSAGE_V2, fields, bytes(100))
        return answer.ext_fields.get("recallHandle", "")

    async def recall(self, handle: str) -> None:
        """Recall one message."""
        fields = {"producerGroup": "bench", "topic": TOPIC, "recallHandle": handle}
        await self.call(RequestCode.RECALL_MESSAGE, fields)

    async def lateness_ms(self, expected: int, since: list[int]) -> list[int]:
        """Lateness of the messages stored in the topic from ``since`` on, once all are there."""
        late: list[int] = []
        deadline = time.monotonic() + 180
        while len(late) < expected:
            if time.monotonic() > deadline:
                sys.exit(f"error: {len(late)} of {expected} messages were delivered")
            for queue_id in range(QUEUES):
                late += await self._pull(queue_id, since)
            if len(late) < expected:
                await asyncio.sleep(0.2)
        return late

    async def _pull(self, queue_id: int, since: list[int]) -> list[int]:
        fields = {"consumerGroup": "bench", "topic": TOPIC, "queueId": str(queue_id)}
        fields |= {"queueOffset": str(since[queue_id]), "maxMsgNums": "32", "sysFlag": "4"}
        fields |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
        fields |= {"subVersion": "0", "expressionType": "TAG"}
        answer = await self._client.call(
            self._address, request(RequestCode.PULL_MESSAGE, fields), 30_000
        )
        if answer.code != 0:
            return []
        messages = list(scan_records(answer.body_bytes()))
        since[queue_id] += len(messages)
        return [
            message.store_timestamp - int(message.properties["TIMER_OUT_MS"]) - PRECISION_MS
            for message in messages
        ]


async def pipelined(count: int, work: Callable[[int], Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run ``work(0)`` to ``work(count - 1)``, at most WINDOW at once."""
    window = asyncio.Semaphore(WINDOW)

    async def one(number: int) -> Any:
        async with window:
            return await work(number)

    return await asyncio.gather(*(one(number) for number in range(count)))


async def measure(target: LocalBroker, rate: int, seconds: int, burst: int) -> dict[str, float]:
    """All figures of one broker."""
    load = Load(target.address)
    await load.make_topic()
    await pipelined(2_000, lambda number: load.send(1))  # warm-up: due in the past
    await asyncio.sleep(2)
    since = [2_000 // QUEUES] * QUEUES
    figures: dict[str, float] = {}
    count = rate * seconds
    lead_ms = 15_000 + count // 4  # stored before the first one is due
    first_ms = now_ms() + lead_ms
    began = time.monotonic()
    await pipelined(count, lambda number: load.send(first_ms + number * 1_000 // rate))
    figures["accepted/s"] = count / (time.monotonic() - began)
    if now_ms() > first_ms:
        print(f"note: {target.name}: messages were due before all were stored", file=sys.stderr)
    await asyncio.sleep(max(0, first_ms - now_ms()) / 1_000 + seconds)
    late = sorted(await load.lateness_ms(count, since))
    figures["late p50 ms"] = late[len(late) // 2]
    figures["late p99 ms"] = late[len(late) * 99 // 100]
    figures["late max ms"] = late[-1]
    due_ms = (now_ms() + 5_000 + burst // 2) // 1_000 * 1_000 + 500
    handles = await pipelined(burst, lambda number: load.send(due_ms))
    recalled = burst // 10
    began = time.monotonic()
    await pipelined(recalled, lambda number: load.recall(handles[number]))
    figures["recalled/s"] = recalled / (time.monotonic() - began)
    await asyncio.sleep(max(0, due_ms - now_ms()) / 1_000)
    late = await load.lateness_ms(burst - recalled, since)
    figures["burst/s"] = (burst - recalled) * 1_000 / max(1, max(late))
    await load.close()
    return figures


def main() -> int:
    """Print a table with one column per broker."""
    parser = argparse.ArgumentParser(prog="scripts/bench timer", description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="messages due per second")
    parser.add_argument("--seconds", type=int, default=20, help="length of the even load")
    parser.add_argument("--burst", type=int, default=20_000, help="messages due in one second")
    parser.add_argument("--only", choices=["java", "ours"], help="measure one broker")
    parser.add_argument("--pending", type=int, default=0, help="messages already in the wheel")
    parser.add_argument("--store", type=Path, help="folder of the store with these messages")
    parser.add_argument("--fill", action="store_true", help="make that store and measure nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
        filled = options.store or Path(folder) / "store"
        if options.pending and not filled.exists():
            rate = fill(filled, options.pending, LOG_FILE_BYTES)
            print(f"{options.pending} messages put into the wheel, {rate:,.0f}/s", flush=True)
        return 0 if options.fill else compare(options, filled)


def compare(options: argparse.Namespace, filled: Path) -> int:
    """Measure each broker on a copy of the store ``filled``, if there is one."""
    names = [options.only] if options.only else ["java", "ours"]
    if "java" in names and not shutil.which("java"):
        print("note: no Java here, only our broker is measured", file=sys.stderr)
        names.remove("java")
    results = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
            if filled.exists():
                subprocess.run(
                    ["cp", "-r", "--sparse=always", filled, f"{folder}/store"], check=True
                )
            began = time.monotonic()
            target = start(name, Path(folder))
            started = time.monotonic() - began
            try:
                results[name] = asyncio.run(
                    measure(target, options.rate, options.seconds, options.burst)
                )
                results[name] |= {"start ms": 1_000 * started, **target.memory_mib()}
            finally:
                target.stop()
    print(f"{'':14}" + "".join(f"{name:>12}" for name in results))
    for row in next(iter(results.values())):
        cells = [f"{figures[row]:12,.0f}" for figures in results.values()]
        print(f"{row:14}" + "".join(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
