"""Columns of an export."""

from mqadmin.pipeline.jobs.export import ALL, export_columns


def test_the_topic_is_always_exported_first() -> None:
    assert export_columns({"columns": "", "body": "true"}) == list(ALL)
    assert "body" not in export_columns({"columns": "", "body": "false"})
    assert export_columns({"columns": "keys, topic", "body": "true"}) == ["topic", "keys"]
