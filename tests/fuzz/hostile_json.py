"""JSON texts that cost a reader more than their length: references, nesting, numbers, names.

fastjson's own dialect is among them (``$ref``, bare and object keys, single quotes), since the
readers of RocketMQ understand it.
"""

import json
import random
from collections.abc import Callable

LONG = 60 * 1024


def bomb_members(rng: random.Random) -> str:
    """Members for the root object: every level costs twice the level before, if it is followed."""
    levels = rng.choice((5, 10, 12, 14, 16, 20, 28, 60, 400))
    form = rng.choice(
        (
            '"a{next}":[{{"$ref":"$.a{n}"}},{{"$ref":"$.a{n}"}}]',
            '"a{next}":{{"x":{{"$ref":"$.a{n}"}},"y":{{"$ref":"$.a{n}"}}}}',
            '"a{next}":{{{{"$ref":"$.a{n}"}}:{{"$ref":"$.a{n}"}}}}',
            # A key that is looked at again on every level above.
            '"a{next}":{{{{"$ref":"$.a{n}"}}:1}}',
            # Each path goes through the reference of the level above, twice.
            '"a{n}":{{"x":{{"$ref":"$.a{next}.x.x"}},"y":1}}',
            '"a{n}":{{"$ref":"$.a{next}.a{next}"}}',
        )
    )
    if 'a{next}":' in form:
        first = rng.choice(('"a0":["x","x"]', '"a0":{"x":1}', '"a0":1'))
    else:
        first = f'"a{levels}":{{"x":{{"x":{{"x":1}}}}}}'
    rest = [form.format(n=n, next=n + 1) for n in range(levels)]
    return ",".join([first, *rest])


def reference_bomb(rng: random.Random) -> str:
    """The same as a top-level object; inside another one its paths have no target."""
    return "{" + bomb_members(rng) + "}"


def reference_loop(rng: random.Random) -> str:
    targets = ("$", "..", "@", "$.a", "../a", "$..", "$.extFields", "$[0]", "", "$.a.b.c.d")
    return f'{{"a":{{"$ref":"{rng.choice(targets)}"}},"b":{{"$ref":"$.a"}}}}'


def nesting(rng: random.Random) -> str:
    depth = rng.choice((50, 900, 1_100, 20_000))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    closed = depth if rng.random() < 0.7 else depth // 2
    return opening * depth + "1" + closing * closed


def number(rng: random.Random) -> str:
    return rng.choice(
        (
            "9" * 4_301,
            "1" + "0" * 30_000,
            "1e999999999",
            "-0",
            "1e-999999999",
            "0." + "9" * 20_000,
            str(2**63),
            str(-(2**63) - 1),
            "NaN",
            "Infinity",
            "-Infinity",
            "0x7fffffff",
            "017",
            "+1",
            "1_000",
            ".5",
            "5.",
        )
    )


def mixed_keys(rng: random.Random) -> str:
    parts = ['1:1,"1":"a"', 'null:2,"null":3', "true:1,false:0", '{"a":1}:2', "[1]:2", "1.5:3"]
    return "{" + ",".join(rng.sample(parts, rng.randrange(1, 5))) + "}"


def duplicates(rng: random.Random) -> str:
    count = rng.choice((2, 5_000))
    return "{" + ",".join(f'"k":{rng.randrange(9)}' for _ in range(count)) + "}"


def many_keys(rng: random.Random) -> str:
    count = rng.choice((2_000, 20_000))
    return "{" + ",".join(f'"k{n}":"{n}"' for n in range(count)) + "}"


def strange_text(rng: random.Random) -> str:
    return rng.choice(
        (
            '"\\ud800"',
            '"\\udc00\\ud800"',
            '"\\u0000\\u001b[31m\\n"',
            "'single'",
            '"' + "a" * LONG + '"',
            '"' + "\\u00e9" * 10_000 + '"',
            '"' + "\\" * 9_999 + '"',
            '"unclosed',
            '"\x00\x01\x7f"',
            '"\\x41\\q"',
            '"\u202e\u2028\u009b"',
        )
    )


def empty(rng: random.Random) -> str:
    return rng.choice(("", "{}", "[]", "null", "{", "}", '""', "{{}}", " " * LONG, "\ufeff{}"))


def scalars(rng: random.Random) -> str:
    return json.dumps(rng.choice((None, True, 0, -1, 1.5, "", "text", [], {}, [None])))


KINDS: tuple[Callable[[random.Random], str], ...] = (
    reference_bomb,
    reference_loop,
    nesting,
    number,
    mixed_keys,
    duplicates,
    many_keys,
    strange_text,
    empty,
    scalars,
)


def hostile_value(rng: random.Random) -> str:
    """The text of one value."""
    return rng.choice(KINDS)(rng)


def hostile_object(rng: random.Random, names: tuple[str, ...]) -> str:
    """An object with some of ``names`` and hostile values."""
    parts = []
    for name in rng.sample(names, rng.randrange(min(len(names), 6) + 1)):
        parts.append(f"{json.dumps(name)}:{hostile_value(rng)}")
    if rng.random() < 0.3:
        parts.append(bomb_members(rng))
    return "{" + ",".join(parts) + "}"
