from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.message.message import MessageExt
from broker.message.record import MAGIC_BLANK, MAGIC_V1, body_crc, encode_record

Run = Callable[..., Any]
HOST = bytes([10, 0, 0, 1]) + (10911).to_bytes(4, "big")


def record(number: int) -> bytes:
    body = b"body %d" % number
    return encode_record(
        MessageExt(
            "orders",
            body,
            b"KEYS\x01k%d\x02" % number,
            magic=MAGIC_V1,
            body_crc=body_crc(body),
            queue_id=3,
            queue_offset=number,
            physical_offset=1_000 + number,
            born_timestamp=5,
            store_timestamp=6,
            born_host_raw=HOST,
            store_host_raw=HOST,
        )
    )


@pytest.fixture
def dump(mqadmin: Run, tmp_path: Path) -> Run:
    """Write a file of the given bytes and dump it; the file must not change."""

    def run(data: bytes) -> Any:
        path = tmp_path / "log"
        path.write_bytes(data)
        path.chmod(0o400)
        done = mqadmin("dumpCompactionLog", "-f", str(path))
        assert path.read_bytes() == data
        return done

    return run


def test_each_record_is_a_line_in_the_form_of_java(dump: Run) -> None:
    done = dump(record(0) + record(1))
    assert done.status == 0
    assert done.out.splitlines() == [
        "MessageExt [brokerName=null, queueId=3, storeSize=111, "
        f"queueOffset={number}, sysFlag=0, bornTimestamp=5, bornHost=/10.0.0.1:10911, "
        "storeTimestamp=6, storeHost=/10.0.0.1:10911, "
        f"msgId=0A00000100002A9F{1_000 + number:016X}, commitLogOffset={1_000 + number}, "
        f"bodyCRC={body_crc(b'body %d' % number)}, reconsumeTimes=0, "
        "preparedTransactionOffset=0, toString()=Message{topic='orders', flag=0, "
        f"properties={{KEYS=k{number}}}, body=null, transactionId='null'}}]"
        for number in range(2)
    ]


@pytest.mark.parametrize(
    "rest",
    [b"", bytes(64), (64).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big") + bytes(56)],
)
def test_zeros_and_the_blank_rest_of_a_file_end_the_log(dump: Run, rest: bytes) -> None:
    done = dump(record(0) + rest)
    assert (done.status, len(done.out.splitlines())) == (0, 1)
    assert dump(rest).out == ""


def test_a_damaged_record_is_an_error_after_the_messages_before_it(dump: Run) -> None:
    damaged = bytearray(record(0) + record(1))
    damaged[-20] ^= 1
    done = dump(bytes(damaged))
    assert (done.status, len(done.out.splitlines())) == (7, 1)
    assert f"physical offset {len(record(0))}" in done.err


def test_a_record_that_is_cut_anywhere_is_an_error(dump: Run) -> None:
    whole = record(0)
    for size in range(8, len(whole)):
        assert dump(whole[:size]).status == 7, size


def test_a_file_must_be_given_and_exist(mqadmin: Run, tmp_path: Path) -> None:
    assert mqadmin("dumpCompactionLog").status == 2
    assert mqadmin("dumpCompactionLog", "-f", str(tmp_path / "nosuch")).status == 2
    (tmp_path / "empty").write_bytes(b"")
    assert mqadmin("dumpCompactionLog", "-f", str(tmp_path / "empty")).status == 0
