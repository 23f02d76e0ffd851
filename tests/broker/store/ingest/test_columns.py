"""The tables' columns: as many as declared, each number once."""

from broker.store.ingest import columns


def test_columns_are_numbered_without_gaps() -> None:
    assert columns.TAGS_CODE == columns.ROW_COLUMNS - 1
    assert columns.LAST_END == columns.PLACE_COLUMNS - 1
    assert columns.REPLY_END == columns.SEGMENT_COLUMNS - 1
    assert columns.KEYS_BYTES == columns.APPEND_PARAMETERS - 1
    assert columns.BODY_LENGTH_AT == columns.SHAPE_COLUMNS - 1


def test_a_length_follows_its_position() -> None:
    """Readers take the slice of a text from two neighbouring columns."""
    for name in ("PROPERTIES", "UNIQ_KEY", "TAGS", "KEYS", "BODY"):
        at, length = getattr(columns, f"{name}_AT"), getattr(columns, f"{name}_LENGTH")
        assert length == at + 1
