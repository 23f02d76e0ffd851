"""MessageRequestModeTable: effective modes, limits, invalid content."""

import json

import pytest

from broker.errors import RemoteProtocolError
from broker.server.pop.assignment import request_mode
from broker.server.pop.assignment.request_mode import MODES, MessageRequestModeTable, RequestMode
from broker.store.format.config import MESSAGE_REQUEST_MODE, decode_config
from tests.support.json_mutations import failures


def mode(topic="T", group="G", kind="POP") -> RequestMode:
    return RequestMode(topic=topic, consumer_group=group, mode=kind)


def test_the_mode_that_was_set_applies_else_the_default() -> None:
    table = MessageRequestModeTable()
    table.put(mode())
    default = RequestMode(mode="PULL")
    assert table.effective("T", "G", default).mode == "POP"
    assert table.effective("T", "Other", default).mode == "PULL"
    assert table.effective("%RETRY%G", "G", RequestMode(mode="POP")).mode == "PULL"


def test_the_number_of_modes_is_limited(monkeypatch) -> None:
    monkeypatch.setattr(request_mode, "MAX_MODES", 1)
    table = MessageRequestModeTable()
    assert table.put(mode())
    assert table.put(mode(kind="PULL"))
    assert not table.put(mode(group="Other"))


def test_a_rolled_back_entry_is_gone() -> None:
    table = MessageRequestModeTable()
    table.put(mode())
    table.restore({"T@G": None})
    assert table.get("T", "G") is None
    assert table.snapshot() == {}


def test_written_values_are_read_back() -> None:
    table = MessageRequestModeTable()
    table.put(mode())
    other = MessageRequestModeTable()
    other.load(table.to_file())
    assert other.snapshot() == table.snapshot()


@pytest.mark.parametrize("wire", [{"mode": "PUSH"}, {"mode": "POP", "popShareQueueNum": "x"}])
def test_invalid_entries_are_refused(wire) -> None:
    with pytest.raises(RemoteProtocolError, match="T@G: invalid values"):
        decode_config(
            MESSAGE_REQUEST_MODE, json.dumps({"messageRequestModeMap": {"T": {"G": wire}}})
        )


def test_a_copied_table_replaces_everything_and_leaves_out_invalid_modes() -> None:
    table = MessageRequestModeTable()
    table.put(mode())
    table.put(mode(group="Kept"))
    copied = {"T": {"Kept": mode(group="Kept", kind="PULL"), "Bad": mode(kind="PUSH")}}
    table.replace_all({**copied, "New": {"G": mode(topic="New")}})
    assert table.get("T", "G") is None
    assert table.get("T", "Bad") is None
    assert table.effective("T", "Kept", mode()).mode == "PULL"
    assert table.effective("New", "G", mode(kind="PULL")).mode == "POP"


def test_a_table_with_a_value_of_another_type_is_loaded_or_refused() -> None:
    entries = {"T": {"G": {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 3}}}
    document = {"messageRequestModeMap": entries}

    def load(changed: object) -> None:
        table = MessageRequestModeTable()
        table.load(decode_config(MESSAGE_REQUEST_MODE, json.dumps(changed)).table)
        for groups in table.to_file().values():
            assert all(wire["mode"] in MODES for wire in groups.values())

    accepted, wrong = failures(load, document)
    assert wrong == []
    assert accepted > 0
