"""JSON headers of requests with changed bytes and fields: of peers that are wrong or hostile."""

import random
from collections.abc import Sequence


def mutated(rng: random.Random, header: bytes, names: Sequence[str]) -> bytes:
    """A header with some bytes changed, or with one of these ext fields before the others."""
    data = bytearray(header)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.choice(b'0123456789-+.eE"\\{}[],: tnf*\x00\xff')
        elif kind == 1:
            del data[at : at + rng.randrange(1, 4)]
        elif kind == 2:
            data[at:at] = rng.choice((b"0", b"-", b'"', b" ", b"1e1", b",", b"\\u0030", b"null"))
        else:
            name = rng.choice(names)
            value = rng.choice(
                ('"1"', "1", "true", '"true"', "null", '"1.0"', '"+1"', '" 1"', '"1_0"')
            )
            return bytes(data).replace(
                b'"extFields":{', b'"extFields":{"%b":%b,' % (name.encode(), value.encode()), 1
            )
    return bytes(data)
