"""Settings and their checks."""

import pytest

from broker.client.config import ClientConfig, ConsumerConfig, MessageModel
from broker.errors import ClientError


def test_the_environment_is_used_only_without_configured_name_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    assert ClientConfig().namesrv_addresses() == ("env:1",)
    assert ClientConfig(namesrv="given:1").namesrv_addresses() == ("given:1",)


def test_a_configuration_needs_name_servers_or_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ClientError, match="no name server"):
        ClientConfig().namesrv_addresses()
    assert ClientConfig(namesrv_url="http://h/nsaddr").namesrv_addresses() == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consume_threads", 0),
        ("consume_threads", 1_001),
        ("consume_message_batch_max_size", 1_025),
        ("pull_batch_size", 0),
        ("pull_threshold_for_queue", 65_536),
        ("message_model", "CLUSTERING"),
        ("consume_from_where", "FIRST"),
    ],
)
def test_a_value_outside_its_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ClientError, match=name):
        ConsumerConfig(**{name: value}).check()


def test_the_defaults_are_valid() -> None:
    ConsumerConfig().check()
    ConsumerConfig(message_model=MessageModel.BROADCASTING).check()
