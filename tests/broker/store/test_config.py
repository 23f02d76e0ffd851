"""Settings of the store: each key is read, bounded and written back."""

import pytest

from broker.errors import ConfigError
from broker.store.config import (
    DEFAULTS,
    FIELD_OF_KEY,
    SETTINGS,
    MessageStoreConfig,
    delete_hours,
    from_properties,
    parse_delay_levels,
    to_properties,
)

EXAMPLES = {
    "flush_disk_type": "SYNC_FLUSH",
    "delete_when": "03;15",
    "message_delay_level": "1s 2m",
    "timer_congest_num_each_slot": "1000",
    "disk_max_used_space_ratio": "60",
    "disk_space_clean_forcibly_ratio": "70",
    "disk_space_warning_level_ratio": "80",
}


def test_every_field_has_a_setting_and_every_setting_a_field():
    assert set(SETTINGS) == set(MessageStoreConfig.__struct_fields__)
    assert len(FIELD_OF_KEY) == len(SETTINGS)


@pytest.mark.parametrize("field", sorted(SETTINGS))
def test_each_key_is_read_and_written_back(field):
    default = getattr(DEFAULTS, field)
    if field in EXAMPLES:
        text = EXAMPLES[field]
    elif isinstance(default, bool):
        text = "false" if default else "true"
    elif isinstance(default, int):
        text = str(default + 1)
    else:
        text = "/some/where"
    key = SETTINGS[field].key
    config = from_properties({key: f" {text} "})
    assert getattr(config, field) != default
    assert to_properties(config)[key] == text
    assert from_properties(to_properties(config)) == config


def test_keys_of_others_are_ignored():
    assert from_properties({"brokerName": "x", "noSuchKey": "1"}) == DEFAULTS


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("mappedFileSizeCommitLog", "1g"),
        ("mappedFileSizeCommitLog", "0"),
        ("messageIndexEnable", "yes"),
        ("flushDiskType", "SOMETIMES"),
        ("messageDelayLevel", "1s 5x"),
        ("messageDelayLevel", "s"),
        ("messageDelayLevel", "²s"),
        ("messageDelayLevel", "99999999999d"),
        ("messageDelayLevel", f"{'9' * 5000}s"),
        ("flushIntervalCommitLog", "9" * 5000),
        ("deleteWhen", "²"),
        ("deleteWhen", "24"),
        ("deleteWhen", "noon"),
    ],
)
def test_invalid_values_are_named(key, text):
    with pytest.raises(ConfigError) as caught:
        from_properties({key: text})
    assert key in caught.value.message


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)
def test_every_number_has_bounds_that_are_checked(setting):
    default = getattr(DEFAULTS, FIELD_OF_KEY[setting.key])
    if isinstance(default, bool) or not isinstance(default, int):
        assert setting.bounds is None
        return
    low, high = setting.bounds
    assert low <= default <= high
    for value in (low, high):
        from_properties({setting.key: str(value)})
    for value in (low - 1, high + 1, -(1 << 70), 1 << 70):
        with pytest.raises(ConfigError) as caught:
            from_properties({setting.key: str(value)})
        assert f"{setting.key}={value}: must be between {low} and {high}" in caught.value.message


@pytest.mark.parametrize(
    ("key", "given", "used"),
    [
        ("diskMaxUsedSpaceRatio", 5, 10),
        ("diskMaxUsedSpaceRatio", 99, 95),
        ("diskSpaceCleanForciblyRatio", 10, 30),
        ("diskSpaceWarningLevelRatio", 99, 90),
    ],
)
def test_ratios_are_clamped(key, given, used):
    assert getattr(from_properties({key: str(given)}), FIELD_OF_KEY[key]) == used


def test_delay_levels():
    levels = parse_delay_levels(DEFAULTS.message_delay_level)
    assert len(levels) == 18
    assert (levels[1], levels[5], levels[18]) == (1000, 60_000, 7_200_000)
    assert parse_delay_levels("2d") == {1: 172_800_000}


def test_hours_of_deletion():
    assert delete_hours(DEFAULTS) == {4}
    assert delete_hours(from_properties({"deleteWhen": "03; 15;"})) == {3, 15}


def test_folders_follow_the_root():
    config = MessageStoreConfig(store_path_root_dir="/s")
    assert config.commit_log_folder == "/s/commitlog"
    assert MessageStoreConfig(store_path_commit_log="/log").commit_log_folder == "/log"
    assert MessageStoreConfig().root.endswith("store")
