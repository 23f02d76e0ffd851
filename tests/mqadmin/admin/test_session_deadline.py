"""The deadline of a session: phases, silent peers, sessions without a deadline."""

from collections.abc import Sequence

import pytest

from broker.errors import (
    BrokerError,
    ClientError,
    ConnectError,
    ProtocolError,
    RemotingError,
    RequestTimeoutError,
    RocketMQError,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.session import (
    DEFAULT_TIMEOUT_MS,
    MIN_PHASE_MS,
    AdminSession,
    ClusterAccess,
)
from tests.support.fake_brokers import FakeCluster

CODE = RequestCode.GET_BROKER_RUNTIME_INFO


class Timed:
    """Connections with a deadline: ``left_ms`` per call used up; ``failing`` addresses."""

    def __init__(self, remaining_ms: float | None = 10_000) -> None:
        self.remaining_ms = remaining_ms
        self.failing: dict[str, RocketMQError] = {}
        self.calls: list[tuple[str, float | None]] = []
        self.group_error: RocketMQError | None = None
        self.closed = 0

    def call(
        self, address: str, command: RemotingCommand, timeout_ms: float | None = None
    ) -> RemotingCommand:
        answer = self.call_all([(address, command)], timeout_ms)[0]
        if isinstance(answer, RocketMQError):
            raise answer
        return answer

    def call_all(
        self, calls: Sequence[tuple[str, RemotingCommand]], timeout_ms: float | None = None
    ) -> list[RemotingCommand | RocketMQError]:
        self.calls += [(address, timeout_ms) for address, _ in calls]
        if self.group_error is not None:
            raise self.group_error
        return [
            self.failing.get(address) or response(command, body=b'{"table":{}}')
            for address, command in calls
        ]

    def close(self) -> None:
        self.closed += 1


def session(client: Timed) -> AdminSession:
    return AdminSession(["ns:9876"], client=client)


def ask_all(admin: AdminSession, *addresses: str) -> list[object]:
    command = build_request(CODE, {})
    return list(admin.call_all([(address, command) for address in addresses]))


@pytest.mark.parametrize(
    ("left_ms", "phase_ms"),
    [
        (10_000, 5_000),
        (2_000, 1_000),
        (1_000, 500),
        (999, MIN_PHASE_MS),
        (MIN_PHASE_MS, MIN_PHASE_MS),
        (499, 499),
        (2.5, 2),
        (1, 1),
    ],
)
def test_a_phase_gets_half_of_the_time_left_but_not_less_than_the_minimum(
    left_ms: float, phase_ms: int
) -> None:
    assert session(Timed(left_ms)).phase_ms() == phase_ms


def test_phases_of_one_session_never_exceed_the_time_left(rng) -> None:
    client = Timed(rng.randrange(1, 100_000))
    admin = session(client)
    while client.remaining_ms >= 1:
        limit = admin.phase_ms()
        assert 1 <= limit <= max(1, client.remaining_ms)
        client.remaining_ms -= limit


@pytest.mark.parametrize("left_ms", [0.9, 0, -1])
def test_a_passed_deadline_names_the_limit_and_the_option(left_ms: float) -> None:
    with pytest.raises(RequestTimeoutError) as caught:
        session(Timed(left_ms)).phase_ms()
    assert caught.value.message == f"the deadline of {DEFAULT_TIMEOUT_MS} ms has passed"
    assert caught.value.hint == "give the command more time with --timeout"


def test_a_passed_deadline_names_the_peers_that_did_not_respond() -> None:
    client = Timed()
    client.failing["b:1"] = RequestTimeoutError("b:1: no answer within 5 s", address="b:1")
    admin = session(client)
    with pytest.raises(RequestTimeoutError):
        admin.call("b:1", CODE)
    client.remaining_ms = 0
    with pytest.raises(RequestTimeoutError, match=r"has passed; b:1: no answer within 5 s"):
        admin.phase_ms()


def test_connections_without_a_deadline_have_no_phases() -> None:
    assert session(Timed(None)).phase_ms() is None


def test_each_call_gets_the_limit_of_its_phase() -> None:
    client = Timed(8_000)
    session(client).call("b:1", CODE)
    assert client.calls == [("b:1", 4_000)]


@pytest.mark.parametrize(
    "error",
    [ConnectError("refused", address="b:1"), RequestTimeoutError("silent", address="b:1")],
)
def test_an_address_that_did_not_respond_is_not_called_again(error: RemotingError) -> None:
    client = Timed()
    client.failing["b:1"] = error
    admin = session(client)
    for _ in range(3):
        with pytest.raises(type(error)) as caught:
            admin.call("b:1", CODE)
        assert caught.value.message == error.message
    assert [address for address, _ in client.calls] == ["b:1"]


def test_a_refusal_is_not_silence() -> None:
    client = Timed()
    client.failing["b:1"] = BrokerError(ResponseCode.SYSTEM_BUSY, "busy", "b:1")
    admin = session(client)
    for _ in range(2):
        with pytest.raises(BrokerError):
            admin.call("b:1", CODE)
    assert len(client.calls) == 2


def test_a_connection_that_broke_is_tried_again() -> None:
    """Only an address that cannot be reached, or that is silent, costs a phase."""
    client = Timed()
    client.failing["b:1"] = RemotingError("closed by the peer", address="b:1")
    admin = session(client)
    for _ in range(2):
        with pytest.raises(RemotingError):
            admin.call("b:1", CODE)
    assert len(client.calls) == 2


def test_of_a_group_only_the_addresses_that_responded_so_far_are_called() -> None:
    client = Timed()
    client.failing["b:1"] = ConnectError("refused", address="b:1")
    admin = session(client)
    first = ask_all(admin, "a:1", "b:1", "c:1")
    assert [isinstance(one, ConnectError) for one in first] == [False, True, False]
    client.failing.clear()
    client.calls.clear()
    second = ask_all(admin, "a:1", "b:1", "c:1")
    assert [isinstance(one, ConnectError) for one in second] == [False, True, False]
    assert [address for address, _ in client.calls] == ["a:1", "c:1"]


def test_answers_keep_the_order_of_the_requests_whatever_fails(rng) -> None:
    client = Timed()
    admin = session(client)
    names = [f"h{number}:1" for number in range(8)]
    dead = set(rng.sample(names, 3))
    client.failing = {name: ConnectError(name, address=name) for name in dead}
    for _ in range(3):
        asked = [rng.choice(names) for _ in range(20)]
        answers = ask_all(admin, *asked)
        for name, answer in zip(asked, answers, strict=True):
            assert isinstance(answer, ConnectError) == (name in dead)
            if isinstance(answer, ConnectError):
                assert answer.address == name


def test_a_group_of_silent_addresses_sends_nothing() -> None:
    client = Timed()
    client.failing["b:1"] = ConnectError("refused", address="b:1")
    admin = session(client)
    ask_all(admin, "b:1")
    client.calls.clear()
    assert len(ask_all(admin, "b:1", "b:1")) == 2
    assert client.calls == []


def test_a_deadline_that_passes_during_a_group_is_the_answer_of_each_request() -> None:
    client = Timed()
    client.group_error = RequestTimeoutError("the deadline has passed")
    answers = ask_all(session(client), "a:1", "b:1")
    assert [type(one) for one in answers] == [RequestTimeoutError] * 2


def test_another_error_of_a_group_is_raised() -> None:
    client = Timed()
    client.group_error = ProtocolError("not a frame")
    with pytest.raises(ProtocolError):
        ask_all(session(client), "a:1")


def test_without_a_deadline_every_address_is_called_every_time() -> None:
    client = Timed(None)
    client.failing["b:1"] = ConnectError("refused", address="b:1")
    admin = session(client)
    for _ in range(3):
        with pytest.raises(ConnectError):
            admin.call("b:1", CODE)
    assert len(client.calls) == 3


def test_renewing_calls_silent_addresses_again() -> None:
    client = Timed()
    client.failing["b:1"] = ConnectError("refused", address="b:1")
    admin = session(client)
    ask_all(admin, "b:1")
    client.failing.clear()
    admin.renew()
    (answer,) = ask_all(admin, "b:1")
    assert not isinstance(answer, RocketMQError)
    assert client.closed == 0, "connections that were given stay open"


@pytest.mark.parametrize(
    ("call_ms", "expected"),
    [(None, DEFAULT_TIMEOUT_MS), (3_000, 3_000), (DEFAULT_TIMEOUT_MS + 1, DEFAULT_TIMEOUT_MS)],
)
def test_a_session_without_deadline_bounds_each_call(call_ms: int | None, expected: int) -> None:
    client = Timed()
    other = session(client).without_deadline(call_ms)
    assert other.timeout_ms == expected
    assert other.namesrv_addresses == ("ns:9876",)
    assert other.client is client


def test_a_second_session_has_its_own_memory_of_silent_addresses() -> None:
    client = Timed()
    client.failing["b:1"] = ConnectError("refused", address="b:1")
    admin = session(client)
    ask_all(admin, "b:1")
    other = admin.without_deadline()
    ask_all(other, "b:1")
    assert len(client.calls) == 2


def test_forgetting_queries_topology_and_routes_again(cluster: FakeCluster) -> None:
    admin = cluster.admin()
    routes = admin.routes
    assert len(admin.topology.targets) == 2
    cluster.add("broker-c")
    assert len(admin.topology.targets) == 2
    admin.forget()
    assert len(admin.topology.targets) == 3
    assert admin.routes is not routes


def test_forgetting_before_the_first_use_changes_nothing(cluster: FakeCluster) -> None:
    admin = cluster.admin()
    admin.forget()
    assert len(admin.topology.targets) == 2


def test_the_scope_of_a_change_names_brokers_and_their_clusters(cluster: FakeCluster) -> None:
    cluster.add("broker-x", cluster="Other")
    admin = cluster.admin()
    scope = admin.scope(["10.0.0.3:10911", "10.0.0.1:10911", "10.0.0.3:10911"])
    assert scope.clusters == ["DefaultCluster", "Other"]
    assert scope.brokers == {"10.0.0.1:10911": "broker-a", "10.0.0.3:10911": "broker-x"}
    assert scope.namesrv == ("127.0.0.1:9876",)


def test_an_unregistered_address_is_its_own_name_in_a_scope(cluster: FakeCluster) -> None:
    scope = cluster.admin().scope(["192.0.2.1:10911"])
    assert (scope.clusters, scope.brokers) == ([], {"192.0.2.1:10911": "192.0.2.1:10911"})


def test_an_empty_scope_has_no_broker(cluster: FakeCluster) -> None:
    scope = cluster.admin().scope([])
    assert (scope.clusters, scope.brokers) == ([], {})


def test_a_session_is_closed_when_its_block_ends_even_by_an_error() -> None:
    client = Timed()
    with pytest.raises(ValueError, match="mine"), session(client):
        raise ValueError("mine")
    assert client.closed == 1


def test_no_name_server_hints_at_the_option() -> None:
    with pytest.raises(ClientError) as caught:
        AdminSession([])
    assert caught.value.hint == "give one with --namesrv HOST:PORT"


def test_access_opens_a_session_with_its_options() -> None:
    access = ClusterAccess(
        namesrv=("127.0.0.1:1", "127.0.0.1:2"), timeout_ms=77, address_map={"a:1": "b:1"}
    )
    traced: list[object] = []
    with access.session(trace=traced.append) as admin:
        assert admin.timeout_ms == 77
        assert list(admin.namesrv_addresses) == ["127.0.0.1:1", "127.0.0.1:2"]
        assert admin.network["address_map"] == {"a:1": "b:1"}
        assert admin.network["signer"] is None
        assert admin.network["tls"] is None
        assert admin.network["trace"] == traced.append


def test_a_refusal_has_the_hint_of_its_request(cluster: FakeCluster) -> None:
    error = cluster.admin().refusal(
        "b:1",
        RequestCode.VIEW_MESSAGE_BY_ID,
        response(build_request(CODE, {}), ResponseCode.SYSTEM_ERROR, "can not find"),
    )
    assert error.hint == "mqadmin msg decode-id ID shows the fields of the id"
    assert (error.address, error.code) == ("b:1", ResponseCode.SYSTEM_ERROR)
