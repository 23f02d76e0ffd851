"""Tables that `scan` reads: names of fields and properties, and those of JSON text."""

from typing import TYPE_CHECKING, Final

import numpy as np

from broker.message import message as props
from broker.remoting.protocol.header.fields import wire_names
from broker.remoting.protocol.header.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Limits of `scan`.
FRAME_LIMIT, HEADER_LIMIT, BODY_LIMIT, PROPERTIES_LIMIT, BATCH_LIMIT = range(5)
LIMITS: Final = 5

# Header fields of a send in the order of their declaration; `scan` searches for them.
FIELDS: Final = tuple(wire_names(SendMessageRequestHeaderV2))
LONG_NAMES: Final = tuple(
    wire_names(SendMessageRequestHeader).get(field, "").encode() for field in FIELDS
)
SHORT_NAMES: Final = tuple(
    wire_names(SendMessageRequestHeaderV2)[field].encode() for field in FIELDS
)
FIELD_COUNT: Final = len(FIELDS)


def field_number(name: str) -> int:
    """Return the number of a header field; ValueError if the header has none of that name."""
    return FIELDS.index(name)


# A property whose name ends with one of these needs the plain path, as in send_target.is_special.
SPECIAL_NAMES: Final = tuple(
    name.encode()
    for name in (
        "DELAY",
        "TRAN_MSG",
        props.PROPERTY_POP_CK,
        props.PROPERTY_INNER_NUM,
        props.PROPERTY_MSG_REGION,
        props.PROPERTY_TRACE_SWITCH,
        props.PROPERTY_CLUSTER,
    )
)
# Texts anywhere in the properties that need the plain path, as in send_target.is_special and
# StoreWriter.
TIMER_START: Final = b"TIMER_D"
MULTI_DISPATCH: Final = props.PROPERTY_INNER_MULTI_DISPATCH.encode()


# Members of a JSON header: the first four are numbers, the rest strings, the last the ext fields.
JSON_MEMBERS: Final = (
    *(b"code", b"flag", b"opaque", b"version"),
    *(b"language", b"serializeTypeCurrentRPC", b"extFields"),
)
# By the letter after a backslash the byte, 0 for none; by a digit its value, 255 for none.
JSON_ESCAPES: Final = np.zeros(256, dtype=np.uint8)
for _letter, _byte in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    JSON_ESCAPES[_letter] = _byte
HEX_DIGITS: Final = np.full(256, 255, dtype=np.uint8)
for _value, _pair in enumerate(zip(b"0123456789abcdef", b"0123456789ABCDEF", strict=True)):
    HEX_DIGITS[list(_pair)] = _value


def name_table(names: tuple[bytes, ...]) -> "tuple[NDArray[np.uint8], NDArray[np.int64]]":
    """Return names as one uint8 row each, filled up with zeros, and their lengths."""
    table = np.zeros((len(names), max(map(len, names))), dtype=np.uint8)
    for row, name in enumerate(names):
        table[row, : len(name)] = np.frombuffer(name, dtype=np.uint8)
    return table, np.array([len(name) for name in names], dtype=np.int64)
