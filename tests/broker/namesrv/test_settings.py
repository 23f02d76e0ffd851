"""Settings in force: listing, origins, changing while running."""

from pathlib import Path

import pytest

from broker.common.config.properties import parse_properties
from broker.errors import BrokerError, StoreError
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.settings import LiveSettings
from broker.remoting.protocol.codes import ResponseCode


@pytest.fixture
def settings(tmp_path: Path) -> LiveSettings:
    config = NamesrvConfig(config_store_path=str(tmp_path / "namesrv.properties"))
    return LiveSettings(config, {"clusterTest": "false"}, {"clusterTest": "namesrv.conf"})


def test_the_text_contains_every_key_including_unknown_ones(settings: LiveSettings) -> None:
    values = parse_properties(settings.as_text(administrator=True))
    assert values["listenPort"] == "9876"
    assert values["clusterTest"] == "false"


def test_the_listing_contains_the_origin_of_each_setting(settings: LiveSettings) -> None:
    lines = settings.lines()
    assert "listenPort=9876  # default" in lines
    assert "clusterTest=false  # namesrv.conf" in lines


def test_a_change_takes_effect_is_reported_and_persisted(settings: LiveSettings) -> None:
    Path(settings.config.store_path).write_text("# mine\nenableTopicList=true\n")
    reported: list[NamesrvConfig] = []
    settings.on_change = reported.append
    settings.update({"enableTopicList": "false", "waitSecondsForService": "7"})
    assert not settings.config.enable_topic_list
    assert settings.config.wait_seconds_for_service == 7
    assert reported == [settings.config]
    assert Path(settings.config.store_path).read_text() == (
        "# mine\nenableTopicList=false\nwaitSecondsForService=7\n"
    )
    assert "enableTopicList=false  # changed while running" in settings.lines()


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("kvConfigPath", "/x", ResponseCode.NO_PERMISSION),
        ("configStorePath", "/x", ResponseCode.NO_PERMISSION),
        ("configBlackList", "", ResponseCode.NO_PERMISSION),
        ("rocketmqHome", "/x", ResponseCode.NO_PERMISSION),
        ("listenPort", "1", ResponseCode.NO_PERMISSION),
        ("allowRemoteAdmin", "true", ResponseCode.NO_PERMISSION),
        ("adminHosts", "0.0.0.0/0", ResponseCode.NO_PERMISSION),
        ("clusterMembers", "0.0.0.0/0", ResponseCode.NO_PERMISSION),
        ("noSuchKey", "1", ResponseCode.NO_PERMISSION),
        ("waitSecondsForService", "long", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_an_update_with_a_key_that_cannot_change_is_refused_as_a_whole(
    settings: LiveSettings, key: str, value: str, code: int
) -> None:
    before = settings.config
    with pytest.raises(BrokerError, match=key) as caught:
        settings.update({"enableTopicList": "false", key: value})
    assert caught.value.code == code
    assert settings.config is before
    assert not Path(before.store_path).exists()


def test_a_change_that_cannot_be_written_does_not_take_effect(tmp_path: Path) -> None:
    """And repeating it is refused again, until it can be written."""
    path = tmp_path / "file" / "namesrv.properties"
    path.parent.write_text("a file in place of the folder")
    settings = LiveSettings(NamesrvConfig(config_store_path=str(path)))
    reported: list[NamesrvConfig] = []
    settings.on_change = reported.append
    for _ in range(2):
        with pytest.raises(StoreError, match=r"namesrv\.properties"):
            settings.update({"enableTopicList": "false"})
        assert settings.config.enable_topic_list
    path.parent.unlink()
    settings.update({"enableTopicList": "false"})
    assert reported == [settings.config]
    assert "enableTopicList=false" in path.read_text()
