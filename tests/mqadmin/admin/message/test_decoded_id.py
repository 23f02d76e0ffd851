"""Message ids decoded offline: both kinds, IPv6, and text that is not an id."""

import random

import pytest

from broker.errors import ClientError
from broker.message.message_id import compose_uniq_key, offset_msg_id
from mqadmin.admin.message.decoded_id import decode_id
from mqadmin.admin.message.record import BodyView

TEXT = BodyView(encoding="text")
UNIQ = compose_uniq_key("192.0.2.1", 4711, 0x1B2C3D4E, 1000, 1)


class TestDecodeId:
    def test_an_offset_id(self):
        decoded = decode_id("7F00000100002A9F0000000000000123")
        assert (decoded.address, decoded.physical_offset) == ("127.0.0.1:10911", 0x123)
        assert decoded.likely == "offsetMsgId"

    def test_a_uniq_key(self):
        decoded = decode_id(UNIQ)
        assert decoded.likely == "uniqKey"
        assert (decoded.ip, decoded.pid, decoded.counter) == ("192.0.2.1", 4711, 1)
        assert decoded.address is None

    def test_an_ipv6_offset_id(self):
        decoded = decode_id(offset_msg_id("[::1]:10911", 7))
        assert (decoded.address, decoded.physical_offset) == ("[::1]:10911", 7)

    @pytest.mark.parametrize("text", ["", "xyz", "7F" * 15, "GG" * 16])
    def test_rubbish(self, text):
        with pytest.raises(ClientError, match="neither"):
            decode_id(text)


@pytest.mark.parametrize("text", [UNIQ, "7F00000100002A9F0000000000000123"])
def test_every_cut_of_an_id_is_not_an_id(text: str) -> None:
    for length in range(len(text)):
        with pytest.raises(ClientError) as caught:
            decode_id(text[:length])
        assert caught.value.hint


def test_case_and_blanks_do_not_matter() -> None:
    assert decode_id(f"  {UNIQ.lower()}\n") == decode_id(UNIQ)
    assert decode_id(UNIQ.lower()).id == UNIQ


def test_an_id_with_port_zero_is_a_uniq_key() -> None:
    decoded = decode_id("7F000001000000000000000000000123")
    assert (decoded.likely, decoded.address, decoded.physical_offset) == ("uniqKey", None, None)


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(ClientError) as caught:
        decode_id("x" * 1000)
    assert len(caught.value.message) < 140


def test_any_offset_id_is_read_back(rng: random.Random) -> None:
    for _ in range(200):
        host = ".".join(str(rng.randrange(256)) for _ in range(4))
        port, offset = rng.randrange(1, 1 << 16), rng.randrange(1 << 63)
        decoded = decode_id(offset_msg_id(f"{host}:{port}", offset))
        assert (decoded.address, decoded.physical_offset) == (f"{host}:{port}", offset)
        assert decoded.likely == "offsetMsgId"


def test_any_uniq_key_is_read_back(rng: random.Random) -> None:
    for _ in range(200):
        host = ".".join(str(rng.randrange(256)) for _ in range(4))
        fields = (rng.randrange(1, 1 << 16), rng.randrange(1 << 31), rng.randrange(1 << 31))
        counter = rng.randrange(1 << 15)
        decoded = decode_id(compose_uniq_key(host, *fields, counter))
        assert (decoded.ip, decoded.pid, decoded.counter) == (host, fields[0], counter)
        assert (decoded.class_loader_hash, decoded.millis_in_month) == fields[1:]
