"""The error hierarchy: classes for callers to catch, messages with object and cause, hints."""

import inspect
import pickle

import pytest

from broker import errors
from broker.errors import (
    BrokerError,
    ClientError,
    ConfigError,
    CorruptRecordError,
    DescriptorLimitError,
    DiskFullError,
    ForeignProtocolError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    RemotingError,
    RocketMQError,
    StoreError,
)

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, RocketMQError)
]


def test_every_class_is_in_the_documented_tree() -> None:
    documented = errors.__doc__ or ""
    assert all(cls.__name__ in documented for cls in CLASSES)


@pytest.mark.parametrize(
    ("parent", "children"),
    [
        (ProtocolError, {LocalProtocolError, RemoteProtocolError}),
        (RemoteProtocolError, {ForeignProtocolError}),
        (
            RocketMQError,
            {ProtocolError, RemotingError, BrokerError, ClientError, ConfigError, StoreError},
        ),
    ],
)
def test_classes_are_grouped_for_callers(parent: type, children: set[type]) -> None:
    assert {cls for cls in CLASSES if cls.__base__ is parent} == children


def test_a_message_and_its_hint_are_apart() -> None:
    error = ConfigError("listenPort=x: not a number", "use 1 to 65535")
    assert str(error) == error.message == "listenPort=x: not a number"
    assert error.hint == "use 1 to 65535"
    assert RocketMQError("x").hint == ""


def test_a_broker_error_names_code_address_and_remark() -> None:
    error = BrokerError(17, "no topic", "10.0.0.1:10911", request_code=105)
    assert str(error) == "response code 17 (10.0.0.1:10911): no topic"
    assert (error.code, error.remark, error.request_code) == (17, "no topic", 105)
    assert str(BrokerError(1, "x")) == "response code 1: x"


def test_a_corrupt_record_names_file_and_place() -> None:
    error = CorruptRecordError("/s/commitlog/0", 4096, "bad magic", "look for a replica")
    assert str(error) == "/s/commitlog/0 at physical offset 4096: bad magic"
    assert (error.path, error.physical_offset, error.reason) == (
        "/s/commitlog/0",
        4096,
        "bad magic",
    )


def test_errors_of_a_protocol_know_the_byte() -> None:
    assert RemoteProtocolError("x", position=7).position == 7
    assert RemoteProtocolError("x").position == -1
    foreign = ForeignProtocolError("HTTP")
    assert (foreign.kind, foreign.position) == ("HTTP", 0)
    assert "HTTP" in foreign.message


def test_errors_of_a_request_know_peer_and_code() -> None:
    error = RemotingError("x", address="h:1", request_code=11)
    assert (error.address, error.request_code) == ("h:1", 11)
    assert RemotingError("x").request_code == -1


@pytest.mark.parametrize("cls", [StoreError, DiskFullError, DescriptorLimitError])
def test_errors_of_a_store_know_the_path(cls: type[StoreError]) -> None:
    error = cls("x", path="/s", physical_offset=5)
    assert (error.path, error.physical_offset) == ("/s", 5)
    assert cls("x").physical_offset is None


def test_plain_errors_survive_pickling() -> None:
    """Pipeline workers send them to the driver."""
    for cls in (ConfigError, ClientError):
        again = pickle.loads(pickle.dumps(cls("message")))
        assert (type(again), again.message) == (cls, "message")
