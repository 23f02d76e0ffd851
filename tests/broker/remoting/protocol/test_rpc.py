import pytest

from broker.remoting.protocol.codes import RequestCode, request_name
from broker.remoting.protocol.header.fields import RequestHeader, ResponseHeader
from broker.remoting.protocol.rpc import BODY_KINDS, ROLES, RPC, Access, resolve

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


def test_codes_without_a_server_have_no_role():
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


def test_the_fast_port_serves_every_code_but_suspended_ones():
    held = {code for code, rpc in RPC.items() if "broker" in rpc.served_by and not rpc.fast_port}
    assert held == {11, 361, 200050, 200052, 200054, 200055}
    assert not RPC[105].fast_port


SHOWS_SECRETS = {
    RequestCode.GET_CONSUMER_RUNNING_INFO,  # properties and stacks of a client
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
    RequestCode.GET_CONTROLLER_CONFIG,
    RequestCode.GET_LOG_CHECKSUM,  # reads any part of the log from the disk
}
BETWEEN_BROKERS = {
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_BROKER_LIVE_INFO_REQUEST,
    RequestCode.GET_SYNC_STATE_DATA_REQUEST,
    RequestCode.QUERY_DATA_VERSION,  # counts as a sign of life of the broker it names
}


def test_requests_that_change_a_server_need_an_administrator():
    changes = ("DELETE_", "CLEAN_", "AUTH_", "UPDATE_AND_", "WIPE_", "ADD_", "PUT_", "REMOVE_")
    for rpc in RPC.values():
        if rpc.name.startswith(changes) or (rpc.name.endswith("_CONFIG") and "UPDATE" in rpc.name):
            assert rpc.access == Access.ADMINISTRATOR, rpc.name


def test_reading_requests_need_a_client_unless_they_show_secrets_or_are_between_brokers():
    for rpc in RPC.values():
        if not rpc.name.startswith(("GET_", "QUERY_", "VIEW_")) or not rpc.served_by:
            continue
        if rpc.code in SHOWS_SECRETS:
            assert rpc.access == Access.ADMINISTRATOR, rpc.name
        elif rpc.code in BETWEEN_BROKERS:
            assert rpc.access == Access.MEMBER, rpc.name
        else:
            assert rpc.access <= Access.CLIENT, rpc.name


@pytest.mark.parametrize("code", [103, 104, 217, 322, 904, 905, 906, 908, 1001, 1003, 1008])
def test_requests_between_brokers_and_name_servers_need_a_member(code):
    assert RPC[code].access == Access.MEMBER


@pytest.mark.parametrize("code", [222, 223, 307, 309, 314, 318, 25, 205, 100, 102])
def test_requests_that_affect_others_need_an_administrator(code):
    assert RPC[code].access == Access.ADMINISTRATOR


@pytest.mark.parametrize("code", [10, 310, 320, 36, 37, 11, 14, 15, 34, 35, 38, 41, 42, 105])
def test_requests_of_producers_and_consumers_need_a_client(code):
    assert RPC[code].access <= Access.CLIENT


def test_the_codes_a_client_serves():
    served = {code for code, rpc in RPC.items() if "client" in rpc.served_by}
    assert served == {39, 40, 220, 221, 307, 309, 326}


def test_an_empty_reference_is_not_resolved():
    assert resolve("") is None
    assert resolve("records") is None
