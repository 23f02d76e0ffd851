"""Offset files: JSON of undo and export, CSV in Kafka's form."""

from pathlib import Path

import pytest

from broker.errors import ConfigError
from mqadmin.admin.offset.offset_file import (
    SavedOffset,
    SavedOffsets,
    load_offsets,
    parse_offsets,
    save_offsets,
    write_offsets,
)

ONE = SavedOffset(topic="t", broker_name="b", queue_id=1, consumer_offset=7)
NONE = SavedOffset(topic="t", broker_name="b", queue_id=2, consumer_offset=None)


@pytest.mark.parametrize("name", ["f.json", "f.csv", "f"])
def test_a_written_file_is_read_back(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    write_offsets(path, SavedOffsets(group="g", offsets=[ONE, NONE], created_timestamp=1))
    saved = load_offsets(path)
    assert saved.offsets == [ONE, NONE]
    assert saved.group == ("" if name == "f.csv" else "g")


def test_csv_has_the_form_of_kafkas_tool_and_the_broker_name(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    write_offsets(str(path), SavedOffsets(group="g", offsets=[ONE, NONE]))
    assert path.read_text() == "t,1,7,b\nt,2,,b\n"


@pytest.mark.parametrize(
    "text",
    [
        "t,1,7\n",
        '"t",1,7',
        "\n t , 1 , 7 \n\n",
        "topic,partition,offset\nt,1,7\n",
        "topic,queueId,consumerOffset,brokerName\nt,1,7,\n",
    ],
)
def test_lines_without_a_broker_name_are_accepted(text: str) -> None:
    (one,) = parse_offsets(text, "f").offsets
    assert (one.topic, one.queue_id, one.consumer_offset, one.broker_name) == ("t", 1, 7, None)


def test_the_columns_of_a_header_may_be_in_any_order() -> None:
    text = "topic,brokerName,queueId,consumerOffset\nt,b,1,7\nt,b,2,-\n"
    assert parse_offsets(text, "f").offsets == [ONE, NONE]


def test_the_output_of_export_as_json_is_read() -> None:
    text = (
        '{"schema":"mqadmin.offset.export/1","items":[{"topic":"t","queueId":1,'
        '"consumerOffset":7,"brokerName":"b"}],"truncated":false,"errors":[]}'
    )
    assert parse_offsets(text, "f").offsets == [ONE]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("t,1\n", "line 1: 2 columns"),
        ("t,1,2,b,x\n", "line 1: 5 columns"),
        ("t,1,7\nt,x,7\n", "line 2: 'x' is not a queue id"),
        ("t,1,-7\n", "'-7' is not a offset"),
        ("t,1,9223372036854775808\n", "is not a offset"),
        (",1,7\n", "line 1: no topic"),
        ("topic,offset\n", "line 1: the header lacks"),
        ("t,1,7,b\nt,1,8,b\n", "t queue 1 has two offsets"),
        ("\n", "it is empty"),
    ],
)
def test_a_csv_that_cannot_be_used_names_line_and_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_offsets(text, "f.csv")
    assert "f.csv" in failed.value.message
    assert reason in failed.value.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"group":"g","offsets":[{}]}',
        "{",
        '{"group":"g","offsets":[],"schema":"x"}',
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path, text) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"f\.json"):
        load_offsets(str(path))


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"nope\.json"):
        load_offsets(str(tmp_path / "nope.json"))
    with pytest.raises(ConfigError, match="nodir"):
        save_offsets(str(tmp_path / "nodir" / "x"), SavedOffsets(group="g", offsets=[]))


@pytest.mark.parametrize("data", [b"t,0,1\nt,\xff,1\n", b"t,0,1\n\0\0"])
def test_a_file_that_is_not_text_is_named_with_the_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as failed:
        load_offsets(str(path))
    assert failed.value.message.startswith(f"offsets file {path}: line 2: ")
    assert failed.value.hint == "write the file as UTF-8 text"
