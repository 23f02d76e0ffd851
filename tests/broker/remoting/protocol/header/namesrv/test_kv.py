"""Headers of KV configuration: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header.namesrv import kv
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    kv.PutKVConfigRequestHeader: "namespace:s!, key:s!, value:s!",
    kv.KVConfigRequestHeader: "namespace:s!, key:s!",
    kv.GetKVConfigResponseHeader: "value:s?",
    kv.GetKVListByNamespaceRequestHeader: "namespace:s!",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(kv) == set(DECLARED)
