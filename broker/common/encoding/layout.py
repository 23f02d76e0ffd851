"""FieldSpec: one row of a layout table, by which every binary format is declared.

A layout is a tuple of FieldSpec in byte order. Codecs compile ``struct`` formats from it,
``mqadmin store layout`` and the man page print it, and tests check its boundaries.
"""

import msgspec

STRUCT_CODES = {
    "byte": "b",
    "ubyte": "B",
    "short": "h",
    "int": "i",
    "uint": "I",
    "long": "q",
}


class FieldSpec(msgspec.Struct, frozen=True):
    """One field: wire ``name``, ``type``, ``width`` in bytes, ``meaning``, ``since`` version.

    ``type`` is a key of STRUCT_CODES, or ``host`` (8 or 20 bytes by a flag), ``bytes``, ``text``
    (UTF-8). ``width`` is 0 if the length varies (a preceding length field defines it);
    ``optional`` is the condition under which the field exists.
    """

    name: str
    type: str
    width: int
    meaning: str
    since: str = "all"
    optional: str = ""


def struct_format(fields: "tuple[FieldSpec, ...]") -> str:
    """Return the big-endian ``struct`` format of fixed-width fields; n bytes become ``ns``."""
    codes = ""
    for field in fields:
        code = STRUCT_CODES.get(field.type)
        if code is None:
            assert field.width > 0, f"{field.name} has no fixed width"
            code = f"{field.width}s"
        codes += code
    return ">" + codes
