"""Cold data: bytes per group and window against their limits."""

import random

from broker.server.cold_data.control import KEEP_MS, WINDOW_MS, ColdDataControl


def test_a_group_is_limited_until_the_window_ends() -> None:
    control = ColdDataControl(0, 100, 1_000)
    control.add("G1", 60, 10)
    assert not control.exceeded("G1", 10)
    control.add("G1", 40, 20)
    assert control.exceeded("G1", WINDOW_MS - 1)
    assert not control.exceeded("G1", WINDOW_MS)


def test_one_group_does_not_limit_another_below_the_global_limit() -> None:
    control = ColdDataControl(0, 100, 150)
    control.add("G1", 100, 0)
    control.add("G2", 1, 0)
    assert control.exceeded("G1", 1)
    assert not control.exceeded("G2", 1)
    control.add("G2", 49, 1)
    assert control.exceeded("G2", 1), "both together are at the global limit"
    assert not control.exceeded("G3", 1), "a group without cold reads is never limited"


def test_a_group_can_have_its_own_limit() -> None:
    control = ColdDataControl(0, 100, 1_000)
    control.set_limit("G1", 10)
    control.add("G1", 10, 0)
    assert control.exceeded("G1", 0)
    control.remove_limit("G1")
    assert not control.exceeded("G1", 0)


def test_system_groups_are_not_limited() -> None:
    control = ColdDataControl(0, 0, 0)
    control.add("CID_RMQ_SYS_REVIVE_GROUP", 5, 0)
    assert not control.exceeded("CID_RMQ_SYS_REVIVE_GROUP", 0)


def test_idle_groups_leave_the_table() -> None:
    control = ColdDataControl(0, 100, 1_000)
    control.add("G1", 5, 0)
    control.exceeded("G1", KEEP_MS - 1)
    assert list(control.reads) == ["G1"]
    control.exceeded("G1", 2 * KEEP_MS)
    assert control.reads == {}


def test_a_clock_that_is_set_back_starts_a_window() -> None:
    control = ColdDataControl(1_000_000, 100, 1_000)
    control.add("G1", 100, 1_000_000)
    assert not control.exceeded("G1", 5)
    control.add("G1", 100, 6)
    assert control.exceeded("G1", 7)


def test_the_counters_agree_with_a_plain_list() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    control = ColdDataControl(0, 500, 2_000)
    reads: list[tuple[int, str, int]] = []
    now_ms = window_ms = 0
    for _ in range(2_000):
        now_ms += dice.randrange(400)
        if now_ms - window_ms >= WINDOW_MS:
            window_ms = now_ms
        group = dice.choice(["A", "B", "C", "D"])
        if dice.random() < 0.5:
            size = dice.randrange(300)
            control.add(group, size, now_ms)
            reads.append((now_ms, group, size))
        recent = [(name, size) for at, name, size in reads if at >= window_ms]
        known = {name for at, name, size in reads if size and now_ms - at < KEEP_MS}
        mine = sum(size for name, size in recent if name == group)
        total = sum(size for _, size in recent)
        expected = group in known and (mine >= 500 or total >= 2_000)
        if group in known or group not in control.reads:
            assert control.exceeded(group, now_ms) == expected
