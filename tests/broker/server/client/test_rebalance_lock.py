"""Queue locks: owned, renewed, given up, expired."""

from random import Random

from broker.common.message_queue import MessageQueue
from broker.server.client.rebalance_lock import LOCK_EXPIRE_MS, RebalanceLockManager

A, B = (MessageQueue("T", "broker-a", number) for number in range(2))


def test_lock_belongs_to_its_first_taker() -> None:
    locks = RebalanceLockManager()
    assert locks.lock("G", "c1", [A, B], 0) == [A, B]
    assert locks.lock("G", "c2", [A], 1) == []
    assert locks.lock("G", "c1", [A], 1) == [A]


def test_groups_do_not_disturb_each_other() -> None:
    locks = RebalanceLockManager()
    locks.lock("G", "c1", [A], 0)
    assert locks.lock("H", "c2", [A], 0) == [A]


def test_expired_lock_can_be_taken() -> None:
    locks = RebalanceLockManager()
    locks.lock("G", "c1", [A], 0)
    assert locks.lock("G", "c2", [A], LOCK_EXPIRE_MS) == []
    assert locks.lock("G", "c2", [A], LOCK_EXPIRE_MS + 1) == [A]


def test_renewal_counts_from_its_own_time() -> None:
    locks = RebalanceLockManager()
    locks.lock("G", "c1", [A], 0)
    locks.lock("G", "c1", [A], 50_000)
    assert locks.lock("G", "c2", [A], 100_000) == []


def test_only_the_owner_gives_up() -> None:
    locks = RebalanceLockManager()
    locks.lock("G", "c1", [A], 0)
    locks.unlock("G", "c2", [A])
    assert locks.lock("G", "c2", [A], 0) == []
    locks.unlock("G", "c1", [A, B])
    assert locks.lock("G", "c2", [A], 0) == [A]
    locks.unlock("Unknown", "c1", [A])


def test_group_consumes_in_order_while_a_lock_lives() -> None:
    locks = RebalanceLockManager()
    assert not locks.holds_any("G", 0)
    locks.lock("G", "c1", [A], 0)
    assert locks.holds_any("G", LOCK_EXPIRE_MS)
    assert not locks.holds_any("G", LOCK_EXPIRE_MS + 1)


def test_expired_locks_are_forgotten() -> None:
    locks = RebalanceLockManager()
    locks.lock("G", "c1", [A], 0)
    locks.lock("H", "c1", [A], 90_000)
    locks.expire(100_000)
    assert not locks.holds_any("G", 0)
    assert locks.holds_any("H", 100_000)


def test_limit_is_kept_and_freed() -> None:
    locks = RebalanceLockManager(limit=2)
    queues = [MessageQueue("T", "broker-a", number) for number in range(3)]
    assert locks.lock("G", "c1", queues, 0) == queues[:2]
    assert locks.lock("H", "c1", queues, 0) == []
    assert locks.lock("G", "c1", queues[:2], 1) == queues[:2], "renewing needs no room"
    locks.unlock("G", "c1", queues[:1])
    assert locks.lock("H", "c1", queues, 1) == queues[:1]
    locks.expire(LOCK_EXPIRE_MS + 2)
    assert locks.lock("H", "c1", queues, LOCK_EXPIRE_MS + 2) == queues[:2]


def test_locks_agree_with_a_dictionary_of_owners(rng: Random) -> None:
    """Two members never hold one queue at the same time: its order would be lost."""
    locks = RebalanceLockManager(life_ms=100)
    queues = [MessageQueue("T", "broker-a", number) for number in range(3)]
    model: dict[tuple[str, MessageQueue], tuple[str, int]] = {}
    now = 0
    for _ in range(3_000):
        now += rng.randrange(40)
        group, client = rng.choice("GH"), rng.choice(["c1", "c2", "c3"])
        chosen = rng.sample(queues, rng.randint(0, 3))
        action = rng.choice(["lock", "lock", "lock", "unlock", "expire"])
        if action == "lock":
            held = locks.lock(group, client, chosen, now)
            for queue in chosen:
                owner, since = model.get((group, queue), (client, now))
                free = owner == client or now - since > 100
                assert (queue in held) is free
                if free:
                    model[group, queue] = (client, now)
        elif action == "unlock":
            locks.unlock(group, client, chosen)
            for queue in chosen:
                if model.get((group, queue), ("", 0))[0] == client:
                    del model[group, queue]
        else:
            locks.expire(now)
            model = {key: one for key, one in model.items() if now - one[1] <= 100}
        for name in "GH":
            valid = any(key[0] == name and now - one[1] <= 100 for key, one in model.items())
            assert locks.holds_any(name, now) is valid


def test_a_request_without_queues_leaves_nothing_to_expire() -> None:
    locks = RebalanceLockManager(limit=1)
    assert locks.lock("G", "c1", [], 0) == []
    assert locks.lock("H", "c1", [A], 0) == [A]
