"""Start after a power cut: the broker and the Java broker over copies of one store, in turn.

Our broker writes the store. A power cut leaves `abort` of another kernel and an old checkpoint, so
both brokers check the whole log. The time runs from the start of the process to "boot success";
the time over an empty store is shown too. Processor seconds are less disturbed by other load.

Exit status 1 if the median of ours exceeds 0.7 of Java's.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from local_broker import LocalBroker, broker_names

from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore

QUEUES = 8
TURN = 64
LIMIT = 0.7
TOPIC = {
    "topicName": "Bench",
    "readQueueNums": QUEUES,
    "writeQueueNums": QUEUES,
    "perm": 6,
    "topicSysFlag": 0,
    "order": False,
    "topicFilterType": "SINGLE_TAG",
    "attributes": {},
}


class Took(NamedTuple):
    """Seconds of one start, and processor seconds of the process until then."""

    wall: float
    cpu: float


def write_store(root: Path, mib: int, body_bytes: int) -> int:
    """Write a log of ``mib`` MiB, messages with tags and two keys; return their number."""
    deferred: list[object] = []
    config = MessageStoreConfig(
        store_path_root_dir=str(root),
        disk_max_used_space_ratio=95,
        clean_file_forcibly_enable=False,
    )
    store = MessageStore(config, defer=deferred.append)
    store.load()
    store.start()
    body = random.Random(2).randbytes(body_bytes)
    number = 0
    while store.max_physical_offset < mib << 20:
        for _ in range(TURN):
            number += 1
            properties = b"KEYS\x01k%d\x02UNIQ_KEY\x017F0000010001%020d\x02TAGS\x01t%d\x02" % (
                number,
                number,
                number % 16,
            )
            store.put_message(MessageExtBrokerInner("Bench", number % QUEUES, body, properties))
        for call in deferred:
            call()  # type: ignore[operator]
        deferred.clear()
    store.shutdown()
    return number


def lose_power(root: Path) -> None:
    """Leave the files of a store after a power cut: an `abort` of another kernel, no checkpoint."""
    for name in ("checkpoint", "queueEnds.json"):
        (root / name).unlink(missing_ok=True)
    (root / "abort").write_bytes(b"1\n")
    (root / "config").mkdir(exist_ok=True)
    table = {"topicConfigTable": {"Bench": TOPIC}, "dataVersion": {"counter": 1, "timestamp": 1}}
    (root / "config" / "topics.json").write_text(json.dumps(table))


def measure(name: str, source: Path | None, folder: Path) -> Took:
    """Start the broker ``name`` over a copy of ``source`` (None: an empty store)."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    if source is not None:
        shutil.copytree(source, work / "store")
        os.sync()  # unwritten pages of the copy must not count as recovery
    settings = {"diskMaxUsedSpaceRatio": 95}
    begin = time.perf_counter()
    with LocalBroker(name, work, settings) as target:
        took = Took(time.perf_counter() - begin, target.cpu())
        if source is not None:
            units = sum(
                path.stat().st_size for path in (work / "store" / "consumequeue").rglob("0*")
            )
            if not units:
                sys.exit(f"error: {name} lost the queues")
    shutil.rmtree(work)
    return took


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench start", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the log (default 1024)")
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body (default 1024)")
    parser.add_argument("--pairs", type=int, default=3, help="turns of each broker (default 3)")
    parser.add_argument("--store", type=Path, help="write the store here, or take the one there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mq-bench-start-") as temporary:
        folder = Path(temporary)
        source = options.store or folder / "source"
        if not source.exists():
            count = write_store(source, options.mib, options.body)
            sys.stdout.write(f"{count} messages with bodies of {options.body} bytes\n")
        lose_power(source)
        names = broker_names()
        seen: dict[tuple[str, bool], list[Took]] = {}
        for _ in range(options.pairs):
            for name in names:
                for full in (False, True):
                    took = measure(name, source if full else None, folder)
                    seen.setdefault((name, full), []).append(took)
                    sys.stdout.write(
                        f"{name:5} {'power cut' if full else 'empty':10} {took.wall:6.2f} s"
                        f" {took.cpu:6.2f} s processor, load {os.getloadavg()[0]:.1f}\n"
                    )
                    sys.stdout.flush()
    if len(names) < 2:
        return 0
    ratios = []
    for label, pick in (("wall", 0), ("processor", 1)):
        ours, java = (statistics.median(t[pick] for t in seen[n, True]) for n in ("ours", "java"))
        ratios.append(ours / java)
        sys.stdout.write(f"{label:10} ours {ours:.2f} s, java {java:.2f} s, {ours / java:.2f}\n")
    return ratios[0] > LIMIT


if __name__ == "__main__":
    sys.exit(main())
