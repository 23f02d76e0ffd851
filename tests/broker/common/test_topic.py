import pytest

from broker.common import topic as t
from broker.common.encoding.java_json import dumps, loads
from broker.common.topic import (
    TopicConfig,
    check_topic_name,
    parse_perm,
    perm_text,
    topic_config_from_wire,
    topic_config_to_wire,
)
from broker.errors import ConfigError, RemoteProtocolError


@pytest.mark.parametrize(
    ("perm", "text"), [(0, "---"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (1, "--X")]
)
def test_permissions_print_and_parse(perm: int, text: str) -> None:
    assert perm_text(perm) == text
    assert parse_perm(text) == parse_perm(text.lower()) == parse_perm(str(perm)) == perm


def test_permission_words() -> None:
    assert [parse_perm(word) for word in ("rw", "wr", " R ", "w")] == [6, 6, 4, 2]
    for word in ("", "8", "rr", "x1", "rwz", "-1", "٣"):
        with pytest.raises(ConfigError):
            parse_perm(word)


def test_permission_bits() -> None:
    assert t.is_readable(4)
    assert not t.is_readable(3)
    assert t.is_writable(2)
    assert not t.is_writable(5)
    assert t.is_inherited(7)
    assert not t.is_inherited(6)


def test_names_of_a_group() -> None:
    assert t.retry_topic("G") == "%RETRY%G"
    assert t.dlq_topic("G") == "%DLQ%G"
    assert t.group_of_retry_topic("%RETRY%G") == "G"
    assert t.group_of_dlq_topic("%DLQ%G") == "G"
    assert t.group_of_retry_topic("%DLQ%G") is t.group_of_dlq_topic("G") is None
    assert t.pop_retry_topic("T", "G") == "%RETRY%G_T"
    assert t.pop_retry_topic("T", "G", version_2=True) == "%RETRY%G+T"
    assert t.reply_topic("C") == "C_REPLY_TOPIC"
    assert t.revive_topic("C") == "rmq_sys_REVIVE_LOG_C"
    assert t.sync_member_topic("b") == "rmq_sys_SYNC_BROKER_MEMBER_b"


def test_system_topics() -> None:
    assert t.is_system_topic("TBW102")
    assert t.is_system_topic("rmq_sys_anything")
    assert not t.is_system_topic("%RETRY%G")
    assert t.is_not_allowed_send_topic("SCHEDULE_TOPIC_XXXX")
    assert not t.is_not_allowed_send_topic("TBW102")
    assert t.NOT_ALLOWED_SEND_TOPICS <= t.SYSTEM_TOPICS


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "blank"),
        (" ", "blank"),
        ("a b", "illegal character ' '"),
        ("a+b", "illegal character '+'"),
        ("é", "illegal"),
        ("t" * 128, "127"),
        ("%RETRY%" + "g" * 249, "255"),
    ],
)
def test_bad_names_have_a_reason(name: str, reason: str) -> None:
    assert reason in (check_topic_name(name) or "")


@pytest.mark.parametrize(
    "name", ["a", "A_b-9%|", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 200]
)
def test_good_names_have_none(name: str) -> None:
    assert check_topic_name(name) is None


def test_defaults_are_javas() -> None:
    assert topic_config_from_wire({}) == TopicConfig()
    assert TopicConfig("T") == TopicConfig("T", 16, 16, 6, "SINGLE_TAG", 0, False, {}, {})


def test_golden_configs_survive(vectors) -> None:
    for name, with_attributes in (("topics.json (5.x)", True), ("topics.json (4.9)", False)):
        text = vectors["config_json"][name]
        value = loads(text)
        for topic, wire in value["topicConfigTable"].items():
            config = topic_config_from_wire(wire)
            assert config.topic_name == topic
            value["topicConfigTable"][topic] = topic_config_to_wire(
                config, with_attributes=with_attributes
            )
        assert dumps(value, pretty=True) == text


def test_unknown_fields_survive_in_their_place() -> None:
    wire = {"topicName": "T", "extra": 1, "aNew": [2], "perm": "4", "order": "true", "zz": None}
    config = topic_config_from_wire(wire)
    assert (config.perm, config.order) == (4, True)
    again = topic_config_to_wire(config)
    assert list(again) == sorted(again)
    assert topic_config_from_wire(again) == config
    assert (again["extra"], again["aNew"]) == (1, [2])


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="perm"):
        topic_config_from_wire({"perm": "x"})
    with pytest.raises(RemoteProtocolError, match="attributes"):
        topic_config_from_wire({"attributes": []})
