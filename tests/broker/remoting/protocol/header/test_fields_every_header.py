"""Every header of the RPC table with odd texts: decoded as Java decodes it, or refused by name."""

from functools import cache
from typing import Any

import msgspec
import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.header.fields import (
    decode_header_fields,
    encode_header_fields,
    wire_names,
)
from broker.remoting.protocol.rpc import RPC, resolve
from tests.broker.remoting.protocol.conftest import GoldenFrame

ODD = ("", " ", "x", "0", "1", "-1", "007", "+5", "1.0", "1e3", "1_0", "²", "٣", "NaN", "null",
       "true", "TRUE", "false", "9" * 19, "9" * 5_000, "\x00", "a b", "é😀")  # fmt: skip


@cache
def header_types() -> list[type[msgspec.Struct]]:
    """Every header type that the table names, once."""
    references = {
        reference
        for row in RPC.values()
        for reference in (row.request_header, row.response_header)
        if reference
    }
    return sorted((resolve(one) for one in references), key=lambda kind: kind.__qualname__)


def sample(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Ext fields with a valid text for each field."""
    ext = {}
    for field in msgspec.structs.fields(kind):
        text = str(field.type)
        ext[field.encode_name] = (
            "true" if "bool" in text else "7" if "int" in text or "float" in text else "text"
        )
    return ext


def test_the_table_names_headers() -> None:
    assert len(header_types()) > 60


@pytest.mark.parametrize("kind", header_types(), ids=lambda kind: kind.__name__)
def test_a_complete_header_survives_a_round_trip(kind: type[msgspec.Struct]) -> None:
    header = decode_header_fields(kind, sample(kind))
    ext = encode_header_fields(header)
    assert set(ext) == set(wire_names(kind).values())
    assert all(isinstance(text, str) for text in ext.values())
    assert decode_header_fields(kind, ext) == header


@pytest.mark.parametrize("kind", header_types(), ids=lambda kind: kind.__name__)
def test_an_odd_text_is_a_value_or_an_error_that_names_the_field(
    kind: type[msgspec.Struct],
) -> None:
    whole = sample(kind)
    for name in whole:
        for text in ODD:
            problem = ""
            try:
                header = decode_header_fields(kind, {**whole, name: text})
                assert decode_header_fields(kind, encode_header_fields(header)) == header
            except RemoteProtocolError as error:
                problem = error.message
            assert not problem or f"field {name} " in problem
            assert len(problem) < 300


@pytest.mark.parametrize("kind", header_types(), ids=lambda kind: kind.__name__)
def test_a_boolean_is_true_only_as_the_word(kind: type[msgspec.Struct]) -> None:
    """**Source:** java.lang.Boolean#parseBoolean: "1" is false, too."""
    whole = sample(kind)
    flags = [(name, wire) for name, wire in wire_names(kind).items() if whole[wire] == "true"]
    for name, wire in flags:
        for text in ("0", "1", "yes", "t", "", " true", "y", "on"):
            decoded: Any = decode_header_fields(kind, {**whole, wire: text})
            assert getattr(decoded, name) is False, (wire, text)
        for text in ("true", "TRUE", "True"):
            assert getattr(decode_header_fields(kind, {**whole, wire: text}), name) is True


@pytest.mark.parametrize("kind", header_types(), ids=lambda kind: kind.__name__)
def test_a_number_is_a_decimal_integer_of_java(kind: type[msgspec.Struct]) -> None:
    whole = sample(kind)
    kinds = {field.encode_name: str(field.type) for field in msgspec.structs.fields(kind)}
    numbers = [wire for wire in whole if "int" in kinds[wire] and "float" not in kinds[wire]]
    for wire in numbers:
        for text in ("", "x", "1.5", "1_0", "²", "٣", " 7", "9" * 30):
            with pytest.raises(RemoteProtocolError, match=f"field {wire} "):
                decode_header_fields(kind, {**whole, wire: text})


def test_recorded_headers_encode_to_the_fields_of_the_peer(
    golden_frames: list[GoldenFrame],
) -> None:
    """Fields that our header does not declare are the only ones that get lost."""
    seen = 0
    for frame in golden_frames:
        row = RPC.get(frame.request_code)
        # The Node client writes numbers and booleans as such; the frame decoder makes them texts.
        ext = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in (frame.recorded["ext"] or {}).items()
        }
        reference = "" if row is None else (
            row.response_header if frame.is_response else row.request_header
        )  # fmt: skip
        if not reference or not ext or (frame.is_response and frame.recorded["code"] != 0):
            continue
        kind = resolve(reference)
        declared = {name: ext[name] for name in wire_names(kind).values() if name in ext}
        try:
            encoded = encode_header_fields(decode_header_fields(kind, ext))
        except RemoteProtocolError:
            continue  # a refused request of the recording
        seen += 1
        assert {name: encoded.get(name) for name in declared} == declared, frame.name
    assert seen > 1_000
