"""Rounds of load on one store, each ended by a signal."""

import random
import signal
import time
from collections import Counter

from broker.remoting.blocking import BlockingClient
from tests.support import pop_load
from tests.support.audit import Audit
from tests.support.child import Child
from tests.support.load import (
    BULK,
    EVERYTHING,
    GROUP,
    MIRROR,
    MULTI_DISPATCH,
    Ledger,
    Senders,
    group_request,
    topic_request,
)

# In addition to those of every child: light queues, recalls, offsets that are written soon.
SETTINGS = {
    "enableLmq": "true",
    "recallMessageEnable": "true",
    "flushConsumerOffsetInterval": "300",
    **pop_load.SETTINGS,
}
# Drawn for each life of the broker.
POP_SETTINGS = ("enablePopBufferMerge", "enablePopBatchAck")


class KillRounds:
    """Rounds of load on one store, each ended by a signal."""

    def __init__(self, child: Child, rng: random.Random) -> None:
        self.child = child
        self.rng = rng
        # The version of the pop retry topics lasts: version 1 is popped with either.
        version_2 = rng.choice(("true", "false"))
        self._settings = {**child.settings, "enableRetryTopicV2": version_2}
        self.sent_kinds = EVERYTHING
        if child.settings["enableMultiDispatch"] == "false":
            self.sent_kinds = tuple(kind for kind in EVERYTHING if kind not in MULTI_DISPATCH)
        self.ledger = Ledger()
        self.audit = Audit(child, self.ledger)
        self.ends: list[dict[int, int]] = [{}]
        self.kinds: Counter[str] = Counter()
        self.ready_seconds: list[float] = []

    def run(self, rounds: int, *, full_audit_every: int = 10) -> None:
        self._start()
        self._prepare()
        self.child.kill()
        for number in range(rounds):
            self._round()
            full = number % full_audit_every == full_audit_every - 1 or number == rounds - 1
            progress = self.audit.read_progress()
            self._start()
            self.audit.check_progress(progress)
            # Two rounds back: messages of the previous round must have survived this one too.
            start = {} if full or len(self.ends) < 2 else self.ends[-2]
            self.ends.append(self.audit.check(start))
            if full:
                self.audit.check_everything()
            self.child.kill() if number < rounds - 1 else self.child.stop()
        self._start()
        self.audit.check()
        self.audit.check_everything()
        assert self.child.stop() == 0

    def _prepare(self) -> None:
        """Topics that are not made by their first message, and the groups."""
        commands = (
            topic_request(MIRROR),
            topic_request(BULK, attributes="+queue.type=BatchCQ"),
            topic_request(pop_load.TOPIC),
            topic_request(pop_load.ORDERED),
            group_request(GROUP),
            group_request(pop_load.GROUP),
        )
        with BlockingClient(timeout_ms=20_000) as client:
            for command in commands:
                answer = client.call(self.child.address, command)
                assert answer.code == 0, answer.remark

    def _start(self) -> None:
        began = time.monotonic()
        drawn = {name: self.rng.choice(("true", "false")) for name in POP_SETTINGS}
        self.child.configure(**self._settings, **drawn)
        self.child.start()
        self.ledger.pops.begin_life()
        self.ledger.ordered_pops.begin_life()
        self.audit.starts += 1
        self.ready_seconds.append(time.monotonic() - began)

    def _round(self) -> None:
        rng, child = self.rng, self.child
        first = not self.kinds
        # The first round has every kind of traffic, and a stop in order after it: some
        # acknowledgements last. (A kill may come before the first offset is in the file.)
        count = 1500 if first else rng.choice((1, 20, 300, 1500))
        if rng.random() < 0.2:
            # Killed while it starts, that is while it recovers.
            self.kinds["killed at start"] += 1
            child.spawn()
            if child.lives_for(rng.uniform(0.05, 0.7)):
                child.kill()
        self._start()
        connections = rng.choice((1, 4, 12))
        senders = Senders(child, self.ledger, rng, connections=connections, kinds=self.sent_kinds)
        target = len(self.ledger.acked) + count
        senders.run(lambda: len(self.ledger.acked) >= target)
        kind = rng.choice(("kill", "kill", "kill", "other kernel", "stop", "stopped", "term"))
        kind = "term" if first else kind
        self.kinds[kind] += 1
        if kind in ("stop", "stopped"):
            child.signal(signal.SIGSTOP)
            senders.run(lambda: True)
            # Responses sent before are read; no more may arrive now.
            child.lives_for(rng.uniform(0.01, 0.3))
            if kind == "stop":
                child.signal(signal.SIGCONT)
                target = len(self.ledger.acked) + rng.choice((1, 100))
                senders.run(lambda: len(self.ledger.acked) >= target)
        if kind == "term":
            child.signal(signal.SIGTERM)
        else:
            child.signal(signal.SIGKILL)
        # Answers that the broker sent before its end are acknowledgements.
        senders.drain()
        child.wait()
        self.audit.note_ended()
        if kind == "other kernel":
            child.forget_kernel()
