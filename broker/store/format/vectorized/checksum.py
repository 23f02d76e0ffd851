"""CRC-32 in compiled loops: the C function of ISA-L, 5x as fast as tables; needs numba.

Machine code refers to the function by name, so that numba can cache it; :func:`_register` gives the
name an address in each process. Without ISA-L (package isal) that is zlib's, through the
interpreter: 2 us per call.
"""

import ctypes
import importlib
import zlib
from typing import Any, Final

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.extending import intrinsic

NAME: Final = "mqbroker_crc32"
_Function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)


def _isal() -> int:
    """Address of ISA-L's function; ImportError or AttributeError if there is none."""
    library = ctypes.CDLL(importlib.import_module("isal.isal_zlib").__file__)
    return ctypes.cast(library.crc32_gzip_refl, ctypes.c_void_p).value or 0


def _by_zlib(crc: int, address: int, size: int) -> int:
    return zlib.crc32((ctypes.c_char * size).from_address(address), crc)


_callback: Final = _Function(_by_zlib)  # machine code calls it for as long as the process runs


def _register() -> None:
    try:
        address = _isal()
    except (ImportError, AttributeError, OSError):
        address = ctypes.cast(_callback, ctypes.c_void_p).value or 0
    binding.add_symbol(NAME, address)


def _crc32_compiled(_typing: Any, buf: Any, start: Any, stop: Any) -> Any:
    """One call; the caller has compared the range with the length of ``buf``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        word = ir.IntType(32)
        kind = ir.FunctionType(word, [word, array.data.type, ir.IntType(64)])
        function = builder.module.globals.get(NAME) or ir.Function(builder.module, kind, NAME)
        place = builder.gep(array.data, [arguments[1]])
        size = builder.sub(arguments[2], arguments[1])
        return builder.call(function, [word(0), place, size])

    return types.uint32(buf, types.int64, types.int64), generate


def _crc32_checked(buf: Any, start: Any, stop: Any) -> Any:
    """Do the same where loops run as Python: an index outside raises."""
    return np.uint32(zlib.crc32(bytes(buf[index] for index in range(start, stop))))


_register()
crc32: Any = _crc32_checked if vars(config)["DISABLE_JIT"] else intrinsic(_crc32_compiled)
"""CRC-32 of bytes ``start`` to ``stop`` of a contiguous uint8 array, as ``zlib.crc32``."""
