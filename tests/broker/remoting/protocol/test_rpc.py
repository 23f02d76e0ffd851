import pytest

from broker.remoting.protocol.codes import RequestCode, request_name
from broker.remoting.protocol.header.fields import RequestHeader, ResponseHeader
from broker.remoting.protocol.rpc import BODY_KINDS, ROLES, RPC, resolve

LANES = {
    "send",
    "reply",
    "pull",
    "litePull",
    "query",
    "client",
    "heartbeat",
    "consumer",
    "transaction",
    "ack",
    "admin",
    "namesrv",
    "route",
    "controller",
}


def test_every_request_code_has_one_row():
    codes = {value for name, value in vars(RequestCode).items() if name.isupper()}
    assert set(RPC) == codes
    assert all(rpc.code == code and rpc.name == request_name(code) for code, rpc in RPC.items())


@pytest.mark.parametrize("code", sorted(RPC))
def test_every_reference_leads_to_a_class(code):
    rpc = RPC[code]
    for reference, header in (
        (rpc.request_header, rpc.request_header_type),
        (rpc.response_header, rpc.response_header_type),
    ):
        assert (header is None) == (reference == "")
        assert header is resolve(reference)
        if header is not None:
            assert issubclass(header, RequestHeader | ResponseHeader)
    for reference, body in (
        (rpc.request_body, rpc.request_body_type),
        (rpc.response_body, rpc.response_body_type),
    ):
        assert (body is None) == (reference in ("", *BODY_KINDS))
        assert body is resolve(reference)
        if body is not None:
            assert body.from_bytes(body().to_bytes()) == body()
    assert rpc.lane in LANES
    assert set(rpc.served_by) <= set(ROLES.values())
    assert rpc.dangerous in ("", "destroys", "reconfigures")


def test_codes_nobody_serves_have_no_role():
    assert [code for code, rpc in RPC.items() if not rpc.served_by] == [
        13,
        47,
        22,
        23,
        209,
        210,
        211,
        212,
        213,
        214,
        301,
        302,
        27,
        54,
        1017,
    ]


def test_the_fast_port_serves_everything_of_a_broker_but_what_is_held():
    held = {code for code, rpc in RPC.items() if "broker" in rpc.served_by and not rpc.fast_port}
    assert held == {11, 361, 200050, 200052, 200054, 200055}
    assert not RPC[105].fast_port


def test_what_looks_is_not_dangerous_and_what_deletes_is():
    assert RPC[RequestCode.DELETE_TOPIC_IN_BROKER].dangerous == "destroys"
    assert RPC[RequestCode.UPDATE_BROKER_CONFIG].dangerous == "reconfigures"
    for rpc in RPC.values():
        if rpc.name.startswith(("DELETE_", "CLEAN_", "AUTH_DELETE_")):
            assert rpc.dangerous == "destroys", rpc.name
        if rpc.name.startswith(("GET_", "QUERY_", "VIEW_", "AUTH_GET_", "AUTH_LIST_")):
            assert rpc.dangerous == "", rpc.name


def test_the_codes_a_client_serves():
    served = {code for code, rpc in RPC.items() if "client" in rpc.served_by}
    assert served == {39, 40, 220, 221, 307, 309, 326}


def test_nothing_is_resolved_behind_an_empty_reference():
    assert resolve("") is None
    assert resolve("records") is None
