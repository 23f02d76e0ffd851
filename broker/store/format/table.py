"""Layouts: named field tables, their offsets and the compiled structs derived from them.

A layout is a sequence of big-endian fields (:class:`~broker.common.encoding.layout.FieldSpec`).
``width`` 0 marks a variable field, whose length is stored in an earlier field; fields after it have
no fixed offset.
"""

import struct

import msgspec

from broker.common.encoding.layout import FieldSpec, struct_format


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A named sequence of fields with notes; offsets count from the first byte of the first field.

    ``path`` is the location of such files relative to the root of a store.
    """

    name: str
    title: str
    fields: tuple[FieldSpec, ...]
    path: str = ""
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Width of the fixed fields up to the first variable one, in bytes."""
        return sum(field.width for field in self.fixed_fields())

    def fixed_fields(self) -> tuple[FieldSpec, ...]:
        """The fields up to the first variable one."""
        for number, field in enumerate(self.fields):
            if field.width == 0:
                return self.fields[:number]
        return self.fields

    def offset(self, name: str) -> int:
        """Byte offset of a field that no variable field precedes; KeyError for any other name."""
        total = 0
        for field in self.fields:
            if field.name == name:
                return total
            if field.width == 0:
                break
            total += field.width
        raise KeyError(name)

    def packer(self, *names: str) -> struct.Struct:
        """A compiled struct of the named fields (all fixed ones if none is named).

        It starts at the layout's first byte; other fields before the last named one become pad
        bytes, so one ``unpack_from`` reads a few fields of a long layout. Packing writes zeros
        there. KeyError for a name without a fixed offset.
        """
        wanted = set(names)
        text = ">"
        pad = 0
        for field in self.fixed_fields():
            if names and field.name not in wanted:
                pad += field.width
                continue
            text += (f"{pad}x" if pad else "") + struct_format((field,))[1:]
            pad = 0
            wanted.discard(field.name)
            if names and not wanted:
                break
        if wanted:
            raise KeyError(", ".join(sorted(wanted)))
        return struct.Struct(text)


Row = tuple[str, str, int, str] | tuple[str, str, int, str, str]


def rows(*declared: Row) -> tuple[FieldSpec, ...]:
    """Convert rows (name, type, width, meaning[, since]) to fields."""
    return tuple(FieldSpec(*row) for row in declared)
