"""Small parts of the compiled loops: big-endian numbers and copies of bytes (extra ``fast``).

None checks a position: the caller has compared it with the length of the array.
"""

import numpy as np

from broker.machine_code.compiled_loop import compiled_loop, inlined_loop

_INT32_MAX = 0x7FFFFFFF


@inlined_loop
def u16(data, at):
    """Unsigned number of 2 bytes."""
    return np.int64(data[at]) << 8 | np.int64(data[at + 1])


@inlined_loop
def u32(data, at):
    """Unsigned number of 4 bytes."""
    return u16(data, at) << 16 | u16(data, at + 2)


@inlined_loop
def i32(data, at):
    """Signed number of 4 bytes."""
    value = u32(data, at)
    return value - (1 << 32) if value > _INT32_MAX else value


@inlined_loop
def i64(data, at):
    """Signed number of 8 bytes."""
    return u32(data, at) << 32 | u32(data, at + 4)


@inlined_loop
def put16(out, at, value):
    """Write the low 2 bytes of a number."""
    out[at] = np.uint8(value >> 8 & 0xFF)
    out[at + 1] = np.uint8(value & 0xFF)


@inlined_loop
def put32(out, at, value):
    """Write the low 4 bytes of a number."""
    put16(out, at, value >> 16)
    put16(out, at + 2, value)


@inlined_loop
def put64(out, at, value):
    """Write a number of 8 bytes."""
    put32(out, at, value >> 32)
    put32(out, at + 4, value)


@compiled_loop
def copy(out, at, data, start, length):
    """Copy bytes."""
    target = out[at : at + length]
    source = data[start : start + length]
    for index in range(length):
        target[index] = source[index]


@inlined_loop
def equal(data, at, name, length):
    """Whether ``length`` bytes are those of ``name``."""
    for index in range(length):
        if data[at + index] != name[index]:
            return False
    return True


@compiled_loop
def is_ascii(data, at, stop):
    """Whether no byte is above 127."""
    high = np.uint8(0)
    for position in range(at, stop):
        high |= data[position]
    return high < 128
