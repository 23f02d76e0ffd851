"""Settings of the flow control."""

from broker.server.configuration.config import SETTINGS
from broker.server.flow_control.settings import FLOW_CONTROL_SETTINGS


def test_they_are_settings_of_the_broker() -> None:
    assert FLOW_CONTROL_SETTINGS.items() <= SETTINGS.items()
