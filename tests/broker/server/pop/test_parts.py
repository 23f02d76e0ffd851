"""PopParts: the services follow changed settings."""

import msgspec


def test_settings_are_read_when_they_are_used(desk) -> None:
    parts = desk.pop_service.parts
    assert not parts.config().enable_retry_topic_v2
    changed = msgspec.structs.replace(desk.context.config, enable_retry_topic_v2=True)
    desk.context.set_config(changed)
    assert parts.config().enable_retry_topic_v2
    desk.context.set_address("127.0.0.2", 1)
    assert parts.store_host() == desk.context.store_host
