"""Message ids decoded offline: both kinds, IPv6, and text that is not an id."""

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
