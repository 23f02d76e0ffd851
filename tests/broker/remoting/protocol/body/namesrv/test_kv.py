"""The table body of runtime information, order topics and KV namespaces."""

import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.namesrv.kv import KVTable


def test_a_table_maps_text_to_text_in_its_order() -> None:
    table = KVTable(table={"a": "ü", "b": "2"})
    assert table.to_bytes() == '{"table":{"a":"ü","b":"2"}}'.encode()
    assert KVTable.from_bytes(table.to_bytes()) == table


@pytest.mark.parametrize("body", [b"", b"{}", b'{"table":null}'])
def test_an_absent_table_is_empty(body: bytes) -> None:
    assert KVTable.from_bytes(body).table == {}


def test_a_value_of_another_type_is_read_as_text_or_refused() -> None:
    assert KVTable.from_bytes(b'{"table":{"a":7}}').table == {"a": "7"}
    with pytest.raises(RemoteProtocolError):
        KVTable.from_bytes(b'{"table":[1]}')
