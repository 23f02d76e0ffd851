"""Every JSON body under wrong values: an error that names class and field, or a value.

Bodies come from any peer; a reader that raises anything but a ProtocolError ends a connection.
"""

import importlib
import json
import pkgutil
import random
from typing import Any

import pytest

from broker.errors import ProtocolError, RemoteProtocolError
from broker.remoting.protocol import body as package
from broker.remoting.protocol.body.base import Body, ListBody


def subclasses(base: type) -> list[type[Any]]:
    found = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, base) and value is not base:
                found.add(value)
    return sorted(found, key=lambda one: one.__name__)


BODIES = subclasses(Body)
LISTS = subclasses(ListBody)
# On the wire these are the configuration that they contain, which keeps unknown fields itself.
CONFIGURATIONS = {"SubscriptionGroupBody", "TopicConfigAndQueueMapping"}
WRONG: list[object] = [
    True,
    -1,
    1 << 70,
    1.5,
    1e300,
    "",
    "x",
    "1_0",
    "\u0661",
    [],
    [None],
    [[[]]],
    [1, "x", {}],
    {},
    {"": None},
    {"x": {"y": [1]}},
    {"1": 1},
    {"a@b": {"0": "x"}},
]


def wire_fields(cls: type[Body]) -> list[str]:
    return [name for name in cls.__struct_encode_fields__ if name != "extra"]


def accepts(cls: type[Any], wire: object) -> bool:
    """Whether the value is read; then it is also written, and read back as the same."""
    text = json.dumps(wire).encode()
    failure = ""
    try:
        body = cls.from_bytes(text)
    except RemoteProtocolError as error:
        failure = error.message
    if failure:
        assert cls.__name__ in failure or "JSON" in failure
        assert len(failure) < 2_000, "a hostile value fills the log"
        return False
    written = cls.from_bytes(body.to_bytes())  # fastjson does not write null
    assert cls.from_bytes(written.to_bytes()) == written
    return True


def test_the_packages_bodies_are_found() -> None:
    assert len(BODIES) > 80
    assert LISTS


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_a_body_of_defaults_survives_a_round_trip_and_an_empty_body_is_one(cls: Any) -> None:
    assert cls.from_bytes(b"") == cls.from_bytes(b"{}") == cls.from_bytes(b"null") == cls()
    assert cls.from_bytes(cls().to_bytes()) == cls()


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize(
    "text", [b"[]", b"1", b'"x"', b"true", b"[{}]", b"1.5"], ids=lambda text: text.decode()
)
def test_a_body_that_is_not_an_object_is_an_error_that_names_the_class(
    cls: Any, text: bytes
) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{cls.__name__}: an object is expected"):
        cls.from_bytes(text)


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_each_field_of_a_wrong_type_is_named_or_read_as_fastjson_reads_it(cls: Any) -> None:
    for name in wire_fields(cls):
        for value in WRONG:
            accepts(cls, {name: value})
        assert accepts(cls, {name: None}), f"{name}: null is the default"


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_an_error_names_the_field(cls: Any) -> None:
    for name in wire_fields(cls):
        for value in WRONG:
            failure = ""
            try:
                cls.from_wire({name: value})
            except RemoteProtocolError as error:
                failure = error.message
            assert failure == "" or failure.startswith(f"{cls.__name__}.{name}: ")


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_fields_of_later_releases_survive(cls: Any) -> None:
    extra = {"aFieldOfTheFuture": [1, {"x": "y"}], "another": "é消"}
    body = cls.from_bytes(json.dumps(extra).encode())
    if cls.__name__ not in CONFIGURATIONS:
        assert body.extra == extra
    assert json.loads(body.to_bytes()).items() >= extra.items()
    assert cls.from_bytes(body.to_bytes()) == body


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_random_bytes_and_cut_objects_are_a_value_or_a_protocol_error(
    cls: Any, rng: random.Random
) -> None:
    names = wire_fields(cls)
    for _ in range(30):
        chosen = rng.sample(names, min(len(names), 3))
        text = json.dumps({name: rng.choice(WRONG) for name in chosen}).encode()
        data = bytearray(text[: rng.randrange(len(text) + 1)])
        for _ in range(rng.randrange(3)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            cls.from_bytes(bytes(data))
        except ProtocolError:
            continue


@pytest.mark.parametrize("cls", LISTS, ids=lambda cls: cls.__name__)
def test_a_list_body_is_a_list_or_an_error_that_names_the_class(cls: Any) -> None:
    assert cls.from_bytes(b"") == cls.from_bytes(b"null") == cls.from_bytes(b"[]") == cls()
    assert cls().to_bytes() == b"[]"
    for text in (b"{}", b"1", b'"x"', b"true"):
        with pytest.raises(RemoteProtocolError, match=f"{cls.__name__}: an array is expected"):
            cls.from_bytes(text)
    for value in WRONG:
        accepts(cls, [value])
