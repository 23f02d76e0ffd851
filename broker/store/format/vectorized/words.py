"""Loading eight bytes at once in compiled loops; needs numba (extra ``fast``)."""

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic


def _load_compiled(_typing: Any, buf: Any, at: Any) -> Any:
    """One load at any address; the caller has compared the range with the length of ``buf``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(buf, types.int64), generate


def _load_checked(buf: Any, at: Any) -> Any:
    """Do the same where loops run as Python: an index outside raises."""
    return np.uint64(int.from_bytes(bytes(buf[index] for index in range(at, at + 8)), "little"))


load_word: Any = _load_checked if vars(config)["DISABLE_JIT"] else intrinsic(_load_compiled)
"""Return bytes ``at`` to ``at + 8`` of a contiguous uint8 array as a little-endian number."""
