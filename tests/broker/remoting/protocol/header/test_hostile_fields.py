"""Every header of the request table under wrong texts: a value, or an error with the field."""

import random
from typing import get_type_hints

import msgspec
import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.header.fields import (
    decode_header_fields,
    encode_header_fields,
    wire_names,
)
from broker.remoting.protocol.rpc import RPC

HEADERS = sorted(
    {
        header
        for row in RPC.values()
        for header in (row.request_header_type, row.response_header_type)
        if header is not None
    },
    key=lambda header: header.__name__,
)
NOT_INTEGERS = (
    "",
    " ",
    "x",
    "1x",
    "0x10",
    "1_0",
    "--1",
    "1 2",
    "\u0661",
    "\u00b2",
    "1.5",
    "NaN",
    "Infinity",
    "true",
    "9" * 30,
    "9" * 5_000,
    "-" + "9" * 30,
    "\0",
)


def kinds(header: type[msgspec.Struct]) -> dict[str, str]:
    """Wire name -> int32, int64, bool or str."""
    hints = get_type_hints(header, include_extras=True)
    found = {}
    for name, wire in wire_names(header).items():
        text = str(hints[name])
        if "bool" in text:
            found[wire] = "bool"
        elif "int" in text:
            found[wire] = "int32" if "2147483647" in text else "int64"
        else:
            found[wire] = "str"
    return found


def required(header: type[msgspec.Struct]) -> set[str]:
    fields = msgspec.structs.fields(header)
    return {field.encode_name for field in fields if field.required}


def sample(header: type[msgspec.Struct], rng: random.Random) -> dict[str, str]:
    """A valid value for each field."""

    def value(kind: str) -> str:
        if kind == "bool":
            return rng.choice(("true", "false"))
        if kind == "str":
            return "".join(rng.choices("aZ09%-_|. ,:;é消\x01\x02", k=rng.randrange(1, 20)))
        bits = 31 if kind == "int32" else 63
        return str(rng.choice((0, 1, -1, 2**bits - 1, -(2**bits), rng.randrange(2**bits))))

    return {wire: value(kind) for wire, kind in kinds(header).items()}


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_a_valid_header_survives_a_round_trip(
    header: type[msgspec.Struct], rng: random.Random
) -> None:
    for _ in range(5):
        ext = sample(header, rng)
        decoded = decode_header_fields(header, ext)
        again = decode_header_fields(header, encode_header_fields(decoded))
        assert again == decoded
        # A field that has its default may be written or not; every other one has its text.
        written = encode_header_fields(decoded)
        assert {wire: ext[wire] for wire in written} == written


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_each_missing_required_field_is_named(
    header: type[msgspec.Struct], rng: random.Random
) -> None:
    whole = sample(header, rng)
    for wire in required(header):
        ext = {name: text for name, text in whole.items() if name != wire}
        with pytest.raises(RemoteProtocolError) as caught:
            decode_header_fields(header, ext)
        assert f"field {wire} (" in caught.value.message
        assert "is missing" in caught.value.message
    optional = {name: text for name, text in whole.items() if name in required(header)}
    decode_header_fields(header, optional)


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_a_text_that_is_not_an_integer_is_an_error_that_names_field_and_value(
    header: type[msgspec.Struct], rng: random.Random
) -> None:
    whole = sample(header, rng)
    for wire, kind in kinds(header).items():
        if not kind.startswith("int"):
            continue
        for text in NOT_INTEGERS:
            with pytest.raises(RemoteProtocolError) as caught:
                decode_header_fields(header, {**whole, wire: text})
            message = caught.value.message
            assert header.__name__ in message
            assert wire in message
            assert len(message) < 300, "a hostile value fills the log"


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_an_integer_has_the_range_of_javas_type(
    header: type[msgspec.Struct], rng: random.Random
) -> None:
    whole = sample(header, rng)
    for wire, kind in kinds(header).items():
        if not kind.startswith("int"):
            continue
        bits = 31 if kind == "int32" else 63
        for number in (2**bits - 1, -(2**bits)):
            decode_header_fields(header, {**whole, wire: str(number)})
        for number in (2**bits, -(2**bits) - 1):
            with pytest.raises(RemoteProtocolError, match=wire):
                decode_header_fields(header, {**whole, wire: str(number)})


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_any_text_is_a_boolean_and_any_text_is_a_text(
    header: type[msgspec.Struct], rng: random.Random
) -> None:
    whole = sample(header, rng)
    attributes = {wire: name for name, wire in wire_names(header).items()}
    for wire, kind in kinds(header).items():
        for text in (*NOT_INTEGERS, "TRUE", "1", "0", "yes"):
            if kind == "bool":
                decoded = decode_header_fields(header, {**whole, wire: text})
                assert getattr(decoded, attributes[wire]) is (text.lower() == "true")
            elif kind == "str":
                decoded = decode_header_fields(header, {**whole, wire: text})
                assert getattr(decoded, attributes[wire]) == text


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_the_text_null_is_an_absent_value_where_a_field_may_be_absent(
    header: type[msgspec.Struct], rng: random.Random
) -> None:
    whole = sample(header, rng)
    absent = {one.encode_name: one.name for one in msgspec.structs.fields(header)}
    for wire, kind in kinds(header).items():
        default = next(f.default for f in msgspec.structs.fields(header) if f.encode_name == wire)
        if kind == "str" or default is not None:
            continue
        decoded = decode_header_fields(header, {**whole, wire: "null"})
        assert not getattr(decoded, absent[wire])


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_fields_of_later_releases_are_ignored(
    header: type[msgspec.Struct], rng: random.Random
) -> None:
    whole = sample(header, rng)
    more = {**whole, "aFieldOfTheFuture": "x", "": "", "#": "9" * 100}
    assert decode_header_fields(header, more) == decode_header_fields(header, whole)
