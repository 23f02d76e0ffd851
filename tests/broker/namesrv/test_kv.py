"""KV tables: persistence, bounds, corrupt files."""

import random
from pathlib import Path

import pytest

from broker.errors import ClientError, StoreError
from broker.namesrv import kv
from broker.namesrv.kv import KVConfig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def opened(path: Path) -> KVConfig:
    table = KVConfig(str(path))
    table.load()
    return table


def test_a_value_is_found_until_it_is_deleted(path: Path) -> None:
    table = opened(path)
    assert table.get("ns", "k") is None
    assert table.namespace("ns") is None
    table.put("ns", "k", "v")
    table.put("ns", "k2", "v2")
    table.put("ns", "k", "v3")
    assert table.get("ns", "k") == "v3"
    assert table.namespace("ns") == {"k": "v3", "k2": "v2"}
    table.delete("ns", "k")
    assert table.get("ns", "k") is None
    table.delete("ns", "k2")
    assert table.namespace("ns") == {}
    table.delete("no", "such")


def test_every_change_is_persisted_at_once(path: Path) -> None:
    table = opened(path)
    table.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4;broker-b:4")
    assert (
        path.read_text() == '{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4;broker-b:4"}}}'
    )
    assert opened(path).tables == table.tables
    table.delete("ORDER_TOPIC_CONFIG", "T")
    assert opened(path).namespace("ORDER_TOPIC_CONFIG") == {}


def test_a_table_equals_a_model_across_restarts(path: Path, rng: random.Random) -> None:
    table, model = opened(path), {}
    for _ in range(60):
        namespace, key = rng.choice("xy"), rng.choice(["a", "b", "ü \"'"])
        action = rng.randrange(4)
        if action == 0:
            table.delete(namespace, key)
            model.get(namespace, {}).pop(key, None)
        elif action == 1:
            table = opened(path)
        else:
            value = rng.choice(["", "1", "brök\u0001er:4;x"])
            table.put(namespace, key, value)
            model.setdefault(namespace, {})[key] = value
        assert table.tables == model


@pytest.mark.parametrize(("namespace", "key"), [("", "k"), (" ", "k"), ("ns", ""), ("ns", "\t")])
def test_blank_names_are_refused(path: Path, namespace: str, key: str) -> None:
    table = opened(path)
    with pytest.raises(ClientError, match="blank"):
        table.put(namespace, key, "v")
    assert not path.exists()


def test_values_and_entries_are_bounded(path: Path, monkeypatch) -> None:
    monkeypatch.setattr(kv, "ENTRY_LIMIT", 2)
    table = opened(path)
    with pytest.raises(ClientError, match="limit"):
        table.put("ns", "k", "ü" * kv.VALUE_LIMIT_BYTES)
    table.put("ns", "1", "v")
    table.put("other", "2", "v")
    with pytest.raises(ClientError, match="limit"):
        table.put("ns", "3", "v")
    table.put("ns", "1", "changed")
    assert table.get("ns", "1") == "changed"


@pytest.mark.parametrize("corrupt", [b'{"configTable":{"ns":', b"{\xff"])
def test_the_bak_is_loaded_if_the_file_is_corrupt(path: Path, caplog, corrupt: bytes) -> None:
    table = opened(path)
    table.put("ns", "k", "old")
    table.put("ns", "k", "new")
    path.write_bytes(corrupt)
    assert opened(path).get("ns", "k") == "old"
    assert "loaded the .bak" in caplog.text


@pytest.mark.parametrize("text", ["", "[]", '{"configTable":[]}', '{"configTable":{"a":1}}', "\0"])
def test_an_invalid_file_stops_the_start_and_is_kept(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(StoreError, match="not a KV table") as caught:
        opened(path)
    assert caught.value.path == str(path)
    assert path.read_text() == text


def test_a_file_of_the_java_name_server_is_read(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{\n\t\'configTable\':{"ns":{"k":"v",},},\n}')
    assert opened(path).get("ns", "k") == "v"


def test_a_change_that_cannot_be_written_is_not_visible(path: Path, monkeypatch) -> None:
    table = opened(path)
    table.put("ns", "k", "old")

    def full(path: str, data: bytes) -> None:
        raise StoreError("disk full", path=path)

    monkeypatch.setattr(kv.files, "write_atomically", full)
    with pytest.raises(StoreError):
        table.put("ns", "k", "new")
    with pytest.raises(StoreError):
        table.delete("ns", "k")
    assert table.get("ns", "k") == "old"


def test_without_a_path_nothing_is_written() -> None:
    table = KVConfig()
    table.load()
    table.put("ns", "k", "v")
    assert table.get("ns", "k") == "v"
