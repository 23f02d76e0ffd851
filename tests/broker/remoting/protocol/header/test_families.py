"""Laws that hold for every header class of every family."""

import importlib
import pkgutil

import msgspec
import pytest

import broker.remoting.protocol.header as room
from broker.remoting.protocol.header.fields import (
    RequestHeader,
    ResponseHeader,
    decode_header_fields,
    encode_header_fields,
)

CLASSES = sorted(
    {
        value
        for info in pkgutil.walk_packages(room.__path__, room.__name__ + ".")
        for value in vars(importlib.import_module(info.name)).values()
        if isinstance(value, type) and issubclass(value, RequestHeader | ResponseHeader)
    },
    key=lambda cls: cls.__name__,
)


def example(field):
    """A value of the field's type, chosen by the values that decoding accepts."""
    text = str(field.type)
    if "bool" in text:
        return True
    return 7 if "int" in text else "text é"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_field_survives_the_wire(cls):
    values = {field.name: example(field) for field in msgspec.structs.fields(cls)}
    header = cls(**values)
    ext = encode_header_fields(header)
    assert len(ext) == len(values)
    assert all(type(text) is str for text in ext.values())
    assert decode_header_fields(cls, ext) == header


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_wire_names_are_unique_and_headers_frozen(cls):
    names = cls.__struct_encode_fields__
    assert len(set(names)) == len(names)
    assert cls.__struct_config__.frozen
    assert "**Source:**" in cls.__doc__ or cls is ResponseHeader
