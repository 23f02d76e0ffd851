import pytest

from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.message_id import (
    UniqKeyParts,
    compose_uniq_key,
    offset_msg_id,
    parse_offset_msg_id,
    parse_uniq_key,
)


def test_golden_offset_ids(vectors) -> None:
    for vector in vectors["offset_message_id"]:
        host, port = vector["host"], vector["port"]
        text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        assert offset_msg_id(text, vector["phy"]) == vector["id"]
        assert parse_offset_msg_id(vector["id"]) == (host, port, vector["phy"])
        assert parse_offset_msg_id(vector["id"].lower()) == (host, port, vector["phy"])


def test_golden_uniq_keys(vectors) -> None:
    for vector in vectors["unique_id"]:
        loader_hash = int(vector["class_loader_hash_hex"], 16)
        time_diff_ms = vector["ms_since_month_start"]
        key = compose_uniq_key(
            vector["ip"], vector["pid"], loader_hash, time_diff_ms, vector["counter"]
        )
        assert key == vector["id"]
        assert parse_uniq_key(key) == UniqKeyParts(
            vector["ip"],
            vector["pid"] & 0xFFFF,
            loader_hash,
            time_diff_ms,
            vector["counter"] & 0xFFFF,
        )


@pytest.mark.parametrize(
    "text", ["", "0", "x" * 32, "0" * 31, "0" * 33, "0" * 40, "0 " * 16, "é" * 32, "１" * 32]
)
def test_other_texts_are_not_ids(text: str) -> None:
    for parse in (parse_offset_msg_id, parse_uniq_key):
        with pytest.raises(RemoteProtocolError, match="not a"):
            parse(text)


def test_a_uniq_key_is_rarely_taken_for_an_offset_id() -> None:
    with pytest.raises(RemoteProtocolError, match="port"):
        parse_offset_msg_id("AC1000011092018B47B71A4920400007")
    with pytest.raises(RemoteProtocolError, match="physical offset -1"):
        parse_offset_msg_id("C0A8070800002A9F" + "F" * 16)


def test_a_host_name_makes_no_id() -> None:
    with pytest.raises(LocalProtocolError):
        offset_msg_id("localhost:10911", 0)


def test_ids_round_trip(rng) -> None:
    for _ in range(200):
        raw = rng.randbytes(rng.choice((4, 16))) + rng.randrange(65536).to_bytes(4, "big")
        physical_offset = rng.randrange(1 << 63)
        host, port, offset = parse_offset_msg_id(offset_msg_id(raw, physical_offset))
        text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        assert offset == physical_offset
        assert offset_msg_id(text, offset) == offset_msg_id(raw, physical_offset) or raw[:12] == (
            b"\0" * 10 + b"\xff\xff"  # IPv4 inside IPv6 becomes IPv4
        )
