"""Copies counted from connections, against slaves that reconnect, lose data, and share a host."""

import random
from collections import deque

import pytest

from broker.store.ha.slave_table import SlaveReport, SlaveTable

RECORD = 100


def table_of(*hosts: str) -> SlaveTable:
    """Connections "a", "b", … from these hosts; nothing was sent on any of them."""
    table = SlaveTable()
    for key, host in zip("abcdefgh", hosts, strict=False):
        table.connected(key, host, {})
    return table


def test_slaves_of_different_hosts_count_each() -> None:
    table = table_of("1", "2")
    table.reported("a", SlaveReport(100, start=100))
    table.reported("b", SlaveReport(90, start=90))
    assert [table.acknowledged_by(copies) for copies in (1, 2, 3)] == [100, 90, -1]


def test_connections_of_one_address_are_one_slave_and_the_newer_one_counts() -> None:
    table = table_of("1", "1")
    for key in "ab":
        table.reported(key, SlaveReport(100, own_end=True, name="h:1"))
    assert table.acknowledged_by(2) == -1
    table.reported("b", SlaveReport(50, own_end=True, name="h:1"))
    assert table.acknowledged_by(1) == 50
    table.disconnected("b")
    assert table.acknowledged_by(1) == 100


def test_slaves_with_different_addresses_on_one_host_count_each() -> None:
    table = table_of("1", "1")
    table.reported("a", SlaveReport(100, start=100, name="h:1"))
    table.reported("b", SlaveReport(100, start=100, name="h:2"))
    assert table.acknowledged_by(2) == 100


def test_two_connections_of_a_host_count_once_without_a_proof() -> None:
    table = table_of("1", "1")
    table.reported("a", SlaveReport(100, start=100, own_end=True))
    table.reported("b", SlaveReport(100, start=0, own_end=True))
    assert [table.acknowledged_by(copies) for copies in (1, 2)] == [100, -1]
    # The older one does not count while the newer one has less: it may have replaced it.
    table.reported("b", SlaveReport(30, start=0, own_end=True))
    assert table.acknowledged_by(1) == 30


@pytest.mark.parametrize("own", ["both", "older", "newer", "neither"])
def test_a_host_has_two_slaves_when_the_older_connection_lives_and_both_get_their_own_transfers(
    own: str,
) -> None:
    table = SlaveTable()
    table.connected("old", "1", {})
    table.reported("old", SlaveReport(100, start=100))
    table.connected("new", "1", {"old": 200})
    table.reported("new", SlaveReport(200, start=200, own_end=own in ("both", "newer")))
    older = {"start": 100, "own_end": own in ("both", "older")}
    table.reported("old", SlaveReport(200, **older))  # it was sent before the newer one connected
    assert table.acknowledged_by(2) == -1
    table.reported("old", SlaveReport(201, **older))
    assert table.acknowledged_by(2) == (200 if own == "both" else -1)


def test_a_late_first_report_proves_nothing() -> None:
    table = SlaveTable()
    table.connected("old", "1", {})
    table.connected("new", "1", {"old": -1})
    table.reported("new", SlaveReport(100, start=100, own_end=True))
    table.reported("old", SlaveReport(100, start=100, own_end=True))
    assert table.acknowledged_by(2) == -1
    table.reported("old", SlaveReport(101, start=100, own_end=True))
    assert table.acknowledged_by(2) == 100


def test_the_least_number_of_slaves_that_explains_all_connections_counts() -> None:
    table = SlaveTable()
    for key in "abcd":
        table.connected(key, "1", {"a": 0 if key == "b" else 1_000})
    table.reported("a", SlaveReport(100, name="h:1"))
    table.reported("b", SlaveReport(101, start=101, own_end=True))
    table.reported("c", SlaveReport(50, start=50))
    table.reported("d", SlaveReport(40, start=40, name="h:2"))
    # Only c may have replaced a, so b was replaced by d.
    assert [table.acknowledged_by(copies) for copies in (1, 2, 3)] == [50, 40, -1]


def test_a_slave_of_a_host_is_in_sync_while_it_reports_after_the_newer_connection() -> None:
    table = table_of("1", "1")
    table.reported("a", SlaveReport(100, start=100))
    table.reported("b", SlaveReport(100, start=100))
    assert table.in_sync(100, 1) == 1
    table.reported("a", SlaveReport(100, start=100))
    assert table.in_sync(100, 1) == 2
    assert table.acknowledged_by(2) == -1
    assert table.in_sync(101, 1) == 0


def test_no_copies_are_not_counted() -> None:
    with pytest.raises(ValueError, match="0 copies"):
        SlaveTable().acknowledged_by(0)


class SimSlave:
    """A slave: one open connection at most, a log, a host; a name or none."""

    def __init__(self, number: int, host: str, named: bool) -> None:
        self.number = number
        self.host = host
        self.name = f"{host}:{number}" if named else ""
        self.end = 0
        self.connection: SimConnection | None = None


class SimConnection:
    """Both ends of a connection; the bytes in both directions arrive late, in order."""

    def __init__(self, slave: SimSlave, number: int) -> None:
        self.slave = slave
        self.number = number
        self.open = True
        self.to_slave: deque[int] = deque()
        self.to_master: deque[int] = deque()
        # A second connection that gets copies of the reports; its transfers are discarded.
        self.copy: SimConnection | None = None
        self.is_copy = False
        self.start = -1
        self.sent = -1
        self.acknowledged = -1
        self.marked = -1
        self.own_end = False
        self.name = ""


class World:
    """A master, its slaves, and a network that delays everything, also after an end."""

    def __init__(self, rng: random.Random, *, losses: bool, copies: bool) -> None:
        self.rng = rng
        self.losses = losses
        self.copies = copies
        self.end = RECORD * rng.randrange(3)
        self.table = SlaveTable()
        self.slaves = [
            SimSlave(number, rng.choice("12"), rng.random() < 0.3)
            for number in range(rng.randrange(1, 5))
        ]
        self.connections: list[SimConnection] = []
        self.accepted = 0

    def accept(self, slave: SimSlave) -> SimConnection:
        """The master accepts a connection of a slave."""
        self.accepted += 1
        one = SimConnection(slave, self.accepted)
        self.table.connected(one, slave.host, {other: other.sent for other in self.connections})
        self.connections.append(one)
        return one

    def reconnect(self, slave: SimSlave) -> None:
        """The slave closes its connection and opens another; the master notices the end later."""
        if slave.connection is not None:
            slave.connection.open = False
        if self.losses and self.rng.random() < 0.3:
            slave.end = self.rng.randrange(slave.end + 1)
        slave.connection = one = self.accept(slave)
        if self.copies and self.rng.random() < 0.5:
            one.copy = self.accept(slave)
            one.copy.is_copy = True
            if self.rng.random() < 0.5:  # the copy is the older one
                self.connections.remove(one)
                self.table.disconnected(one)
                slave.connection = again = self.accept(slave)
                again.copy = one.copy
        self.report(slave)

    def report(self, slave: SimSlave) -> None:
        """The slave writes its offset."""
        one = slave.connection
        if one is not None:
            for end in (one, one.copy):
                if end is not None:
                    end.to_master.append(slave.end)

    def transfer(self, one: SimConnection) -> None:
        """The master sends a part of the log, to a marked end once."""
        if one.sent < 0 or one.sent >= self.end:
            return
        target = self.rng.randrange(one.sent + 1, self.end + 1)
        if one.marked < 0 and one.sent % RECORD == 0:
            target = one.marked = one.sent + one.number % (RECORD - 1) + 1
        elif target % RECORD and self.rng.random() < 0.9:
            target = min(self.end, target - target % RECORD + RECORD)
        one.sent = target
        one.to_slave.append(target)

    def deliver_to_slave(self, one: SimConnection) -> None:
        """A transfer arrives: the slave appends and reports it; that of a copy is discarded."""
        target = one.to_slave.popleft()
        if one.open and not one.is_copy and one.slave.connection is one:
            one.slave.end = target
            self.report(one.slave)

    def deliver_to_master(self, one: SimConnection) -> None:
        """A report arrives, also one of a connection that its slave has closed."""
        offset = one.to_master.popleft()
        if one not in self.connections:
            return
        if one.start < 0:
            one.start = one.sent = offset
        elif offset > one.sent:  # acknowledges more than was sent: the master closes it
            self.drop(one)
            return
        one.own_end |= offset == one.marked
        one.acknowledged = offset
        if not one.is_copy and self.rng.random() < 0.5:
            one.name = one.slave.name
        self.table.reported(one, SlaveReport(offset, one.start, one.own_end, one.name))
        self.check()

    def drop(self, one: SimConnection) -> None:
        """The master notices the end of a connection, or closes it."""
        self.connections.remove(one)
        self.table.disconnected(one)
        one.open = False
        if one.slave.connection is one:
            one.slave.connection = None

    def copied(self) -> list[int]:
        """The offsets that the slaves have, from the highest one; by their newest report."""
        offsets: dict[int, int] = {}
        for one in self.connections:
            if one.start >= 0:
                seen = one.acknowledged if self.losses else one.slave.end
                offsets[one.slave.number] = seen
        return sorted(offsets.values(), reverse=True)

    def check(self) -> None:
        """No copy is counted that does not exist."""
        copied = self.copied()
        for copies in range(1, len(self.connections) + 2):
            counted = self.table.acknowledged_by(copies)
            real = copied[copies - 1] if copies <= len(copied) else -1
            assert counted <= real, f"{copies} copies to {counted}, really {real}"

    def step(self) -> None:
        roll = self.rng.random()
        one = self.rng.choice(self.connections) if self.connections else None
        if one is None or roll < 0.06:
            self.reconnect(self.rng.choice(self.slaves))
        elif roll < 0.2:
            self.end += RECORD * self.rng.randrange(1, 4)
        elif roll < 0.25 and not one.open:
            self.drop(one)
            self.check()
        elif roll < 0.3:
            self.report(one.slave)
        elif roll < 0.55:
            self.transfer(one)
        elif roll < 0.75 and one.to_slave:
            self.deliver_to_slave(one)
        elif one.to_master:
            self.deliver_to_master(one)

    def deliver_everything(self) -> None:
        """Everything in flight arrives, all slaves get the whole log."""
        while any(
            one.to_slave or one.to_master or 0 <= one.sent < self.end for one in self.connections
        ):
            for one in list(self.connections):
                while one.to_slave:
                    self.deliver_to_slave(one)
                while one.to_master:
                    self.deliver_to_master(one)
                self.transfer(one)

    def calm(self) -> None:
        """Old connections end, every slave is connected; one more record reaches all of them."""
        self.copies = False
        for one in list(self.connections):
            if not one.open or one.is_copy or one.slave.connection is not one:
                self.drop(one)
        for slave in self.slaves:
            if slave.connection is None:
                self.reconnect(slave)
        self.deliver_everything()
        self.end += 2 * RECORD
        self.deliver_everything()


@pytest.mark.parametrize("kind", ["plain", "losses", "copies"])
def test_random_connections_claim_no_copy_that_does_not_exist_and_in_the_end_all(
    rng: random.Random, kind: str
) -> None:
    for _ in range(150):
        world = World(rng, losses=kind == "losses", copies=kind == "copies")
        for _ in range(rng.randrange(10, 120)):
            world.step()
        world.calm()
        assert world.table.acknowledged_by(len(world.slaves)) == world.end
        assert world.table.acknowledged_by(len(world.slaves) + 1) == -1
