"""Random transactions against a dict: each ends exactly as decided, restarts included."""

import os
import random
from collections import Counter
from typing import Any

import pytest

RUNS = int(os.environ.get("TORTURE_RUNS", "3"))


class Model:
    """The decision about each body; the broker under test is a :class:`Ledger`."""

    def __init__(self, rng: random.Random, make: Any) -> None:
        self.rng = rng
        self.make = make
        self.ledger = make()
        self.ledger.online()
        self.state: dict[bytes, str] = {}
        self.halves: dict[bytes, Any] = {}
        self.open: list[bytes] = []
        self.restarts_allowed = True
        self.restarts = 0

    def step(self) -> None:
        roll = self.rng.random()
        if roll < 0.4:
            self.begin()
        elif roll < 0.6:
            self.decide()
        elif roll < 0.7:
            self.answer_checks()
        elif roll < 0.8:
            self.ledger.check(self.rng.choice((100, 7_000, 31_000)))
        elif roll < 0.9:
            self.ledger.write_ops()
        elif roll < 0.93:
            self.ledger.end(self.halves[self.rng.choice(self.open)], 0) if self.open else None
        elif roll < 0.97:
            self.wrong()
        elif self.restarts_allowed:
            self.restarts += 1
            self.ledger.restart()

    def begin(self) -> None:
        body = b"%05d" % len(self.state)
        immune = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "40"} if self.rng.random() < 0.2 else {}
        self.halves[body] = self.ledger.begin(body, **immune)
        self.state[body] = "open"
        self.open.append(body)

    def decide(self) -> None:
        if not self.open:
            return
        body = self.rng.choice(self.open)
        decision = self.rng.choice((8, 12))
        answer = self.ledger.end(self.halves[body], decision)
        assert answer.code in (0, 604), answer
        if answer.code == 0:
            self.decided(body, decision)

    def decided(self, body: bytes, decision: int) -> None:
        self.state[body] = "committed" if decision == 8 else "rolled back"
        self.open.remove(body)

    def answer_checks(self) -> None:
        """Answer the newest check of each transaction as a producer does: repeat the decision."""
        connection = self.ledger.desk.connection
        for command in connection.commands:
            if command.code != 39:
                continue
            body = self.body_of(command)
            if self.state[body] == "open":
                decision = self.rng.choice((8, 12, 0))
                self.ledger.end(command.ext_fields, decision)
                if decision:
                    self.decided(body, decision)
            else:
                decision = 8 if self.state[body] == "committed" else 12
                assert self.ledger.end(command.ext_fields, decision).code == 0
        connection.sent.clear()

    @staticmethod
    def body_of(command: Any) -> bytes:
        from broker.message.record import decode_record

        return decode_record(command.body_bytes()).body

    def wrong(self) -> None:
        """A foreign end of any transaction changes nothing."""
        if self.open:
            half = self.halves[self.rng.choice(self.open)]
            assert self.ledger.end(half, 8, producerGroup="Foreign").code in (1, 604)

    def finish(self) -> None:
        """Answer every check until nothing is open any more."""
        for _ in range(40):
            self.ledger.check(31_000)
            self.answer_checks()
            self.ledger.write_ops()
        assert not self.open
        self.ledger.check(31_000)

    def verify(self) -> None:
        seen = self.ledger.visible()
        expected = {body for body, state in self.state.items() if state == "committed"}
        assert set(seen) == expected
        # A restart forgets which copies belong together: an end of an old one leaves the newest
        # open, and the answer to its check delivers the message once more.
        assert max(Counter(seen).values(), default=0) <= 1 + self.restarts
        bridge = self.ledger.service.bridge
        assert bridge.half_offset() == bridge.half_end()
        assert bridge.op_offset() == bridge.op_end()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("run", range(RUNS))
def test_every_transaction_ends_as_decided(
    make_ledger, rng: random.Random, run: int, restarts: bool
) -> None:
    model = Model(rng, lambda: make_ledger(transactionCheckMax="1000"))
    model.restarts_allowed = restarts
    for _ in range(150):
        model.step()
    model.finish()
    model.verify()
