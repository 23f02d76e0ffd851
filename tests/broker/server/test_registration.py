"""Registration with name servers: whole table, changes, failures, stop."""

import asyncio
import threading
import zlib

import pytest

from broker.common.topic import TopicConfig
from broker.errors import ConnectError
from broker.remoting.protocol.body.namesrv.register import RegisterBrokerBody
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.namesrv.route import RegisterBrokerRequestHeader
from broker.server import registration as module
from broker.server.registration import Registrar

A, B = "127.0.0.1:9876", "127.0.0.1:9877"


class FakeClient:
    """Name servers that record their requests; ``down`` ones refuse."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, object]] = []
        self.versions: dict[str, int] = {}
        self.down: set[str] = set()
        self.refusing: set[str] = set()
        self.gate: asyncio.Event | None = None
        self.hung: set[str] = set()
        self.hung_gate: asyncio.Event | None = None

    async def call(self, address, command, timeout_ms):
        if address in self.hung:
            assert self.hung_gate is not None
            await self.hung_gate.wait()
        if self.gate is not None:
            await self.gate.wait()
        if address in self.down:
            raise ConnectError(f"{address}: refused", address=address)
        self.requests.append((address, command))
        if command.code == RequestCode.QUERY_DATA_VERSION:
            asked = DataVersion.from_bytes(command.body)
            same = asked.counter == self.versions.get(address)
            return response(command, ext={"changed": "false" if same else "true"})
        return response(command, 1 if address in self.refusing else 0, "no")

    def tables(self, address: str) -> list[set[str]]:
        """The topics of each registration at one name server."""
        return [set(topics(command)) for where, command in self.requests if where == address]


def topics(command) -> dict[str, TopicConfig]:
    body = RegisterBrokerBody.from_bytes(command.body_bytes())
    return body.topic_config_serialize_wrapper.topic_config_table


@pytest.fixture
def registrar(make_desk):
    desk = make_desk(namesrvAddr=f"{A};{B}")
    client = FakeClient()
    made = Registrar(desk.context, client)
    made.desk = desk
    made.client = client
    return made


def test_every_name_server_gets_the_whole_table(registrar, run) -> None:
    run(registrar.register_all())
    whole = set(registrar.desk.context.topics.configs)
    assert registrar.client.tables(A) == [whole]
    assert registrar.client.tables(B) == [whole]


def test_header_and_body_are_readable_by_a_name_server(registrar, run) -> None:
    run(registrar.register_all())
    _, command = registrar.client.requests[0]
    assert command.code == RequestCode.REGISTER_BROKER
    header = decode_header_fields(RegisterBrokerRequestHeader, command.ext_fields)
    assert header.broker_name == "broker-a"
    assert header.cluster_name == "DefaultCluster"
    assert header.broker_addr == registrar.desk.context.address
    assert header.ha_server_addr == "127.0.0.1:10912"
    assert header.broker_id == 0
    assert header.body_crc32 == zlib.crc32(command.body_bytes()) & 0x7FFFFFFF
    wrapper = RegisterBrokerBody.from_bytes(command.body_bytes()).topic_config_serialize_wrapper
    assert wrapper.data_version.counter == registrar.desk.context.topics.data_version.counter


def test_the_permission_of_the_broker_limits_the_registered_one(make_desk, run) -> None:
    desk = make_desk(namesrvAddr=A, brokerPermission="4")
    desk.topic("Orders")
    client = FakeClient()
    run(Registrar(desk.context, client).register_all())
    assert topics(client.requests[0][1])["Orders"].perm == 4


def test_only_name_servers_with_another_version_get_the_table_unless_forced(registrar, run) -> None:
    client, context = registrar.client, registrar.desk.context

    def asked() -> list[tuple[str, int]]:
        codes = [(address, command.code) for address, command in client.requests]
        client.requests.clear()
        return codes

    query, register = RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER
    run(registrar.register_all())
    assert asked() == [(A, register), (B, register)]
    client.versions = {A: context.topics.data_version.counter}
    assert run(registrar.register_all(force=False)) == [B]
    assert asked() == [(A, query), (B, query), (B, register)]
    client.versions[B] = context.topics.data_version.counter
    assert run(registrar.register_all(force=False)) == []
    assert asked() == [(A, query), (B, query)]
    context.topics.ensure("New", 4)
    assert run(registrar.register_all(force=False)) == [A, B]
    assert asked() == [(A, query), (B, query), (A, register), (B, register)]
    client.versions = {}
    client.down.add(A)
    assert run(registrar.register_all(force=False)) == [B]
    client.down.clear()
    client.versions = {
        A: context.topics.data_version.counter,
        B: context.topics.data_version.counter,
    }
    asked()
    assert run(registrar.register_all(force=False)) == [A]  # it failed before
    assert asked() == [(B, query), (A, register)]


def test_name_server_that_is_down_does_not_hold_up_the_others(registrar, caplog, run) -> None:
    registrar.client.down = {A}
    assert run(registrar.register_all()) == [B]
    assert run(registrar.register_all()) == [B]
    assert sum(A in record.getMessage() for record in caplog.records) == 1, "reported once"
    registrar.client.down = set()
    assert run(registrar.register_all()) == [A, B]


def test_a_refusal_is_not_a_registration(registrar, run) -> None:
    registrar.client.refusing = {B}
    assert run(registrar.register_all()) == [A]


def test_an_error_in_one_round_does_not_end_registration(
    registrar, monkeypatch, caplog, run
) -> None:
    monkeypatch.setattr(module, "FIRST_REPEAT_MS", 0)
    monkeypatch.setattr(module, "RETRY_MS", (0, 0))

    async def main() -> None:
        await registrar.start()
        registrar.client.requests.clear()
        failing = True
        again = asyncio.Event()
        register_all = registrar.register_all

        async def broken(**options):
            nonlocal failing
            if failing:
                failing = False
                raise ValueError("a topic that cannot be encoded")
            again.set()
            return await register_all(**options)

        monkeypatch.setattr(registrar, "register_all", broken)
        await asyncio.wait_for(again.wait(), 20)
        await registrar.stop()

    run(main())
    assert "a topic that cannot be encoded" in caplog.text


def test_change_travels_alone(registrar, run) -> None:
    registrar.desk.topic("Orders")
    run(registrar.announce(["Orders", "Deleted"]))
    assert registrar.client.tables(A) == [{"Orders"}]


def test_changes_while_one_is_under_way_travel_together(registrar, run) -> None:
    for name in ("One", "Two", "Three"):
        registrar.desk.topic(name)

    async def main() -> None:
        registrar.client.gate = asyncio.Event()
        first = asyncio.create_task(registrar.announce(["One"]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        others = [asyncio.create_task(registrar.announce([name])) for name in ("Two", "Three")]
        await asyncio.sleep(0)
        registrar.client.gate.set()
        await asyncio.gather(first, *others)

    run(main())
    assert registrar.client.tables(A) == [{"One"}, {"Two", "Three"}]


def test_hung_name_server_is_waited_for_once(registrar, monkeypatch, caplog, run) -> None:
    """Topics that are made later are announced at the healthy one, without any wait."""
    from broker.server import registration

    monkeypatch.setattr(registration, "ANNOUNCE_WAIT_MS", 20)
    names = [f"T{number}" for number in range(20)]
    for name in names:
        registrar.desk.topic(name)
    waits: list[int] = []
    wait = asyncio.wait

    async def counting_wait(tasks, timeout):
        waits.append(len(tasks))
        return await wait(tasks, timeout=timeout)

    monkeypatch.setattr(asyncio, "wait", counting_wait)

    async def main() -> None:
        registrar.client.hung = {A}
        registrar.client.hung_gate = asyncio.Event()
        for name in names:
            await registrar.announce([name])
        assert registrar.client.tables(A) == []
        assert registrar.client.tables(B) == [{name} for name in names]
        assert waits == [2] + [1] * 19, "only the first announcement waits for both"
        registrar.client.hung_gate.set()
        registrar.client.hung = set()
        assert await registrar.register_all() == [A, B]
        waits.clear()
        await registrar.announce(["T0"])
        assert waits == [2]

    run(main())
    assert sum("no answer within 20 ms" in line for line in caplog.messages) == 1


def test_large_tables_are_encoded_off_the_loop(registrar, monkeypatch, run) -> None:
    from broker.server import registration

    monkeypatch.setattr(registration, "ENCODED_AT_ONCE", 3)
    threads: list[bool] = []
    body = registrar.body

    def noting_body(topics):
        threads.append(threading.current_thread() is threading.main_thread())
        return body(topics)

    registrar.body = noting_body
    registrar.desk.topic("Orders")
    run(registrar.register_all())
    run(registrar.announce(["Orders"]))
    assert threads[0] is False
    assert all(threads[1:]), "few topics are encoded at once"


def test_without_changes_no_broker_is_contacted(registrar, run) -> None:
    run(registrar.announce(["Deleted"]))
    assert registrar.client.requests == []


def test_stop_leaves_every_name_server_and_ends_registering(registrar, run) -> None:
    async def main() -> None:
        await registrar.start()
        registrar.client.requests.clear()
        await registrar.stop()
        await registrar.announce(["TBW102"])

    run(main())
    assert [command.code for _, command in registrar.client.requests] == [
        RequestCode.UNREGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
    ]
    assert registrar.client.requests[0][1].ext_fields["brokerName"] == "broker-a"


def test_lost_connection_brings_the_next_registration_forward(registrar, monkeypatch, run) -> None:
    from broker.server import registration

    monkeypatch.setattr(registration, "RETRY_MS", (1, 2))

    async def main() -> None:
        await registrar.start()
        registrar.client.requests.clear()
        unregistered = asyncio.Event()
        original = registrar.client.call

        async def call(*args):
            answer = await original(*args)
            unregistered.set()
            return answer

        registrar.client.call = call
        registrar.connection_lost()
        await asyncio.wait_for(unregistered.wait(), 10)
        await registrar.stop()

    run(main())


def test_broker_without_name_servers_is_content(desk, run) -> None:
    client = FakeClient()
    assert run(Registrar(desk.context, client).register_all()) == []
