import pytest

from broker.errors import ClientError, RemoteProtocolError
from broker.message import message as m
from broker.message.compression import compress
from broker.message.message import Message, MessageExt, split_keys


def test_message_keeps_tags_and_keys_as_properties() -> None:
    message = Message("T", b"body", tags="TagA", keys=["k1", "k2"], properties={"x": "y"})
    assert message.properties == {"x": "y", "TAGS": "TagA", "KEYS": "k1 k2", "WAIT": "true"}
    assert (message.tags, message.keys, message.wait, message.delay_level) == (
        "TagA",
        ["k1", "k2"],
        True,
        0,
    )
    assert Message("T", b"", keys="a b", wait=False).properties == {"KEYS": "a b", "WAIT": "false"}
    assert Message("T", b"", properties={"DELAY": "3"}).delay_level == 3
    assert Message("T", b"", properties={"DELAY": "x"}).delay_level == 0
    assert Message("T", b"", properties={"DELAY": "9" * 4_301}).delay_level == 0
    assert Message("T", b"", properties={"UNIQ_KEY": "u"}).uniq_key == "u"
    assert "T" in repr(message)


def test_empty_key_words_are_dropped() -> None:
    assert split_keys(" a  b ") == ["a", "b"]
    assert split_keys(None) == split_keys("") == []


def test_stored_message_peeks_single_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    message = MessageExt("T", b"", b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x01U")
    with monkeypatch.context() as patched:
        patched.setattr(m, "decode_properties", lambda raw: pytest.fail("split"))
        assert (message.tags, message.keys, message.uniq_key) == ("t", ["a", "b"], "U")
        assert message.get_property("NONE") is None
    message.properties["TAGS"] = "changed"
    assert message.tags == "changed"
    message.properties = {"KEYS": "z"}
    assert (message.tags, message.keys) == (None, ["z"])


def test_payload_expands_compressed_bodies_within_the_limit() -> None:
    assert MessageExt("T", b"plain").payload() == b"plain"
    packed = MessageExt("T", compress(b"x" * 1000), sys_flag=0x301)
    assert packed.payload() == b"x" * 1000
    assert packed.is_compressed
    with pytest.raises(RemoteProtocolError, match="more than 999"):
        packed.payload(999)


def test_equal_when_the_record_is_equal() -> None:
    assert MessageExt("T", b"a") == MessageExt("T", b"a")
    assert MessageExt("T", b"a") != MessageExt("T", b"b")
    assert MessageExt("T", b"a") != "T"
    assert "physical_offset=0" in repr(MessageExt("T"))


def test_reserved_names_are_all_property_constants() -> None:
    assert {"KEYS", "TAGS", "WAIT", "DELAY", "UNIQ_KEY", "__CRC32#"} <= m.RESERVED_PROPERTIES
    assert "T" not in m.RESERVED_PROPERTIES


@pytest.mark.parametrize("keys", [42, 0, ["a", 42], b"k"])
def test_keys_of_a_wrong_type_are_refused_with_the_topic_and_the_next_step(keys: object) -> None:
    with pytest.raises(ClientError, match=r"message to topic T: keys is .*: it must be") as caught:
        Message("T", b"x", keys=keys)  # type: ignore[arg-type]
    assert "str(" in caught.value.hint


def test_properties_of_a_wrong_type_are_refused_with_the_topic() -> None:
    with pytest.raises(ClientError, match="message to topic T: properties is 42: it must be"):
        Message("T", b"x", properties=42)  # type: ignore[arg-type]
