"""Blocking clients in a process that was forked while clients ran, on both event loops."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.server.standalone import BlockingEmbeddedBroker

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}

PROGRAM = """
import gc, os, sys
from broker.client import Message, Producer
from broker.errors import ClientError

def send(producer):
    return producer.send(Message("T", b"x"), timeout_ms=30_000).send_status.name

producer = Producer("inherited", sys.argv[1])
producer.start()
send(producer)
child = os.fork()
if not child:
    for call in (lambda: send(producer), producer.start):
        try:
            call()
        except ClientError as error:
            print("refused:", error.message, "|", error.hint)
    producer.shutdown()
    del producer
    gc.collect()
    with Producer("own", sys.argv[1]) as own:
        print("child:", send(own))
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
print("parent:", send(producer))
with Producer("second", sys.argv[1]) as second:
    print("second:", send(second))
producer.shutdown()
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_child_makes_its_own_clients_and_leaves_those_of_its_parent_alone(
    tmp_path: Path, loop: str
) -> None:
    with BlockingEmbeddedBroker(str(tmp_path), SMALL) as both:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, both.namesrv_address],
            env={**os.environ, "ROCKETMQ_LOOP": loop},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    refused = "this Producer was started before the fork | make a new one in the child"
    assert done.stdout.splitlines() == [
        f"refused: {refused}",
        f"refused: {refused}",
        "child: SEND_OK",
        "parent: SEND_OK",
        "second: SEND_OK",
    ]
