import struct

from broker.common.encoding.layout import FieldSpec, struct_format


def test_formats_are_big_endian_and_have_the_declared_width() -> None:
    fields = (
        FieldSpec("a", "int", 4, ""),
        FieldSpec("b", "long", 8, ""),
        FieldSpec("c", "host", 20, ""),
        FieldSpec("d", "uint", 4, ""),
        FieldSpec("e", "short", 2, ""),
        FieldSpec("f", "byte", 1, ""),
        FieldSpec("g", "ubyte", 1, ""),
    )
    assert struct_format(fields) == ">iq20sIhbB"
    assert struct.calcsize(struct_format(fields)) == sum(field.width for field in fields)
