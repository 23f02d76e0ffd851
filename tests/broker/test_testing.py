"""The fixtures for other projects, used as such a project uses them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

EXAMPLE = """
import time
from broker.client import Message

stores = []

def test_a_message_arrives(rocketmq_producer, rocketmq_topic, rocketmq_receive, tmp_path):
    rocketmq_producer.send(Message(rocketmq_topic, b"hello", tags="A"))
    rocketmq_producer.send(Message(rocketmq_topic, b"other", tags="B"))
    assert [one.body for one in rocketmq_receive(rocketmq_topic, 1, tags="A")] == [b"hello"]
    stores.append(tmp_path)

def test_each_test_has_its_own_store(rocketmq_producer, rocketmq_topic, tmp_path):
    result = rocketmq_producer.send(Message(rocketmq_topic, b"hello"))
    assert result.offset_msg_id.endswith("0" * 16)
    assert tmp_path not in stores

def test_missing_messages_fail(rocketmq_topic, rocketmq_receive, monkeypatch):
    monkeypatch.setattr("broker.testing.RECEIVE_TIMEOUT_MS", 100)
    rocketmq_receive(rocketmq_topic, 1)

def test_the_process_stays_small(rocketmq_producer, rocketmq_topic):
    rocketmq_producer.send(Message(rocketmq_topic, b"hello"))
    with open("/proc/self/status") as status:
        kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    assert kib < 60 * 1024, kib
"""


def test_an_example_project_runs(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(EXAMPLE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "broker.testing", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "0 of 1 messages came in time" in done.stdout


def test_servers_and_client_take_under_half_a_second_of_cpu(tmp_path: Path) -> None:
    """CPU time of the second round in one process: elapsed time depends on the machine's load."""
    program = """
import sys, time
from broker.client.facade.producer import Producer
from broker.message.message import Message
from broker.server.standalone import BlockingEmbeddedBroker
from broker.testing import SMALL_STORE
for number in range(2):
    began = time.process_time()
    with BlockingEmbeddedBroker(f"{sys.argv[1]}/{number}", SMALL_STORE) as both:
        with Producer("p", both.namesrv_address) as producer:
            producer.send(Message("T", b"x"))
            print(time.process_time() - began)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    first_s, second_s = map(float, done.stdout.split())
    assert first_s < 2.0
    assert second_s < 0.5
