"""Every request code of a name server under wrong fields and bodies: an answer, and no change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.common.clock import ManualClock
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.header.fields import wire_names
from broker.remoting.protocol.rpc import RPC
from tests.support.namesrv_desk import NamesrvDesk

CODES = sorted(code for code, row in RPC.items() if "namesrv" in row.served_by)
TEXTS = ("", " ", "\0", "..", "../../etc/passwd", "x" * 40_000, "%RETRY%", "a:b:c", "é消", "[::1]")
NUMBERS = (-1, 0, 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
BODIES = (
    b"{",
    b"[]",
    b"null",
    b"1",
    b"{}",
    b'{"topicConfigSerializeWrapper":1}',
    b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1}}}',
    b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}',
    b'{"filterServerList":7}',
    b"\xff" * 64,
    b"\x78\x9c" + b"\0" * 20,
    b"[" * 5_000,
    b"key=\\u00",
)


def state(server: NamesrvDesk) -> tuple[Any, ...]:
    """Everything that requests change."""
    return (
        {name: sorted(table) for name, table in server.routes.topics.items()},
        sorted(server.routes.groups),
        server.settings.config,
        dict(server.kv.tables),
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NamesrvDesk]:
    made = NamesrvDesk(tmp_path, ManualClock())
    yield made
    alive = made.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert alive.code == ResponseCode.SUCCESS


def names(code: int) -> list[str]:
    header = RPC[code].request_header_type
    common = ("bname", "ns", "nsd", "oway", "lo")
    return [] if header is None else [n for n in wire_names(header).values() if n not in common]


def check(answer: RemotingCommand, code: int) -> None:
    if answer.code != ResponseCode.SUCCESS:
        assert answer.remark, f"code {code} answers {answer.code} without a remark"
        assert len(answer.remark) < 5_000, f"code {code} repeats its input"
        assert "Traceback" not in answer.remark


@pytest.mark.parametrize("code", CODES)
def test_a_request_without_fields_is_answered_and_changes_nothing(
    server: NamesrvDesk, code: int
) -> None:
    before = state(server)
    answer = server.ask(code)
    check(answer, code)
    assert state(server) == before


@pytest.mark.parametrize("code", [code for code in CODES if names(code)])
def test_each_missing_required_field_is_named_in_the_remark(server: NamesrvDesk, code: int) -> None:
    header = RPC[code].request_header_type
    ext = dict.fromkeys(names(code), "1")
    # Optional fields of a header change nothing here: only required ones are missed.
    for name in names(code):
        rest = {one: text for one, text in ext.items() if one != name}
        answer = server.ask(code, rest, b"")
        if answer.code != ResponseCode.SUCCESS and "is missing" in (answer.remark or ""):
            assert f"field {name} (" in answer.remark, header.__name__


@pytest.mark.parametrize("code", [code for code in CODES if names(code)])
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:12]))
def test_hostile_texts_are_answered(server: NamesrvDesk, code: int, text: str) -> None:
    check(server.ask(code, dict.fromkeys(names(code), text)), code)


@pytest.mark.parametrize("code", [code for code in CODES if names(code)])
@pytest.mark.parametrize("number", NUMBERS)
def test_extreme_numbers_are_answered(server: NamesrvDesk, code: int, number: int) -> None:
    check(server.ask(code, dict.fromkeys(names(code), str(number))), code)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: ascii(body[:14]))
def test_hostile_bodies_are_answered(server: NamesrvDesk, code: int, body: bytes) -> None:
    fields = {
        "brokerName": "a",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": "C",
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": "0",
        "topic": "T",
        "namespace": "n",
        "key": "k",
        "value": "v",
        "cluster": "C",
    }
    for ext in ({}, fields, {**fields, "compressed": "true"}, {**fields, "bodyCrc32": "1"}):
        check(server.ask(code, ext, body), code)


@pytest.mark.parametrize("code", [0, -1, 1 << 14, 32_767, 999])
def test_an_unknown_code_is_answered_as_not_supported(server: NamesrvDesk, code: int) -> None:
    answer = server.ask(code)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert str(code) in answer.remark


def test_a_registration_that_is_refused_leaves_the_routes_of_before(server: NamesrvDesk) -> None:
    ext = {
        "brokerName": "a",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": "C",
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": "0",
    }
    table = b'{"T":{"topicName":"T"},"U":{"topicName":"U"}}'
    whole = b'{"topicConfigSerializeWrapper":{"topicConfigTable":%b}}' % table
    assert server.ask(RequestCode.REGISTER_BROKER, ext, whole).code == ResponseCode.SUCCESS
    before = state(server)
    refused = 0
    for length in range(len(whole)):
        answer = server.ask(RequestCode.REGISTER_BROKER, ext, whole[:length])
        refused += answer.code != ResponseCode.SUCCESS
        assert state(server) == before
    assert refused == len(whole) - 1  # an empty body is a heartbeat of old releases
