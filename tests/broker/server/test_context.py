"""The parts of the broker that every processor uses."""

import msgspec


def test_changed_settings_reach_every_table(desk) -> None:
    seen = []
    desk.context.on_config_change.append(lambda: seen.append(desk.context.config))
    changed = msgspec.structs.replace(desk.context.config, auto_create_topic_enable=False)
    desk.context.set_config(changed)
    assert desk.context.topics.config is changed
    assert desk.context.groups.config is changed
    assert seen == [changed]


def test_address_and_its_binary_form_go_together(desk) -> None:
    desk.context.set_address("10.1.2.3", 10911)
    assert desk.context.address == "10.1.2.3:10911"
    assert desk.context.store_host == bytes([10, 1, 2, 3, 0, 0, 0x2A, 0x9F])
    desk.context.set_address("::1", 1)
    assert desk.context.address == "[::1]:1"
    assert len(desk.context.store_host) == 20


def test_retry_topic_is_made_once(desk) -> None:
    assert desk.context.ensure_retry_topic("G1", 0)
    assert not desk.context.ensure_retry_topic("G1", 5)
    assert desk.context.topics.get("%RETRY%G1").read_queue_nums == 1
