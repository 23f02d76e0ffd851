"""More ConsumeQueues than a process may have open files: written, pulled, stopped, reopened."""

import os
import random
from pathlib import Path

from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.support.broker_process import BrokerProcess
from tests.support.send_frames import send_fields
from tests.support.traffic import pull_request, topic_fields

OPEN_FILES = 400
QUEUES = 700


def test_more_queues_than_open_files(tmp_path: Path, rng: random.Random) -> None:
    broker = BrokerProcess(tmp_path, open_files=OPEN_FILES)
    stored: dict[int, list[bytes]] = {number: [] for number in range(QUEUES)}
    order = [number for number in stored for _ in range(3)]
    rng.shuffle(order)
    with broker:
        made = request(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Many", QUEUES))
        assert broker.call(made).code == 0
        with BlockingClient(timeout_ms=60_000) as client:
            for number, queue_id in enumerate(order):
                fields = {**send_fields(number, "Many"), "e": str(queue_id)}
                body = b"%d" % number
                sent = request(RequestCode.SEND_MESSAGE_V2, fields, body)
                answer = client.call(broker.address, sent)
                assert answer.code == 0, (number, queue_id, answer.remark)
                stored[queue_id].append(body)
            if os.path.isdir(f"/proc/{broker.pid}/fd"):
                assert len(os.listdir(f"/proc/{broker.pid}/fd")) < OPEN_FILES // 2
        for _ in ("running", "started again"):
            with BlockingClient(timeout_ms=60_000) as client:
                for queue_id in rng.sample(range(QUEUES), QUEUES):
                    pull = pull_request("CID_JODIE_1", "Many", queue_id, 0)
                    answer = client.call(broker.address, pull)
                    bodies = [message.body for message in scan_records(answer.body_bytes())]
                    assert bodies == stored[queue_id], queue_id
            assert broker.stop() == 0
            broker.start()
        assert "Too many open files" not in broker.log_text
