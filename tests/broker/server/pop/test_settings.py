"""Settings of pop consumption: every field has a key, bounds are checked."""

import pytest

from broker.errors import ConfigError
from broker.server.configuration import config as role
from broker.server.pop.settings import POP_SETTINGS


def test_every_pop_setting_is_a_field_with_javas_key() -> None:
    for name, setting in POP_SETTINGS.items():
        assert role.SETTINGS[name] is setting
        value = getattr(role.DEFAULTS, name)
        assert role.to_properties(role.DEFAULTS)[setting.key] == str(value).replace(
            "True", "true"
        ).replace("False", "false")


@pytest.mark.parametrize(
    ("key", "value"),
    [("reviveQueueNum", "0"), ("popFromRetryProbability", "101"), ("popCkStayBufferTime", "1"),
     ("defaultMessageRequestMode", "PUSH"), ("popInflightMessageThreshold", "-1")],
)  # fmt: skip
def test_values_outside_the_bounds_are_refused(key, value) -> None:
    with pytest.raises(ConfigError, match=key):
        role.from_properties({key: value})
