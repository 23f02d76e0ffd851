"""Plans carried out: moved states, steps, read-backs."""

from broker.errors import ConnectError
from mqadmin.admin.change import apply_plan
from mqadmin.admin.result import Change, Plan, Request


class World:
    """Targets as a dict; sending a request applies its ext fields."""

    def __init__(self, **states):
        self.states = states
        self.broken = set()
        self.sent = []

    def call_all(self, requests):
        answers = []
        for address, command in requests:
            self.sent.append(address)
            if address in self.broken:
                answers.append(ConnectError("down", address=address))
                continue
            self.states[address] = dict(command.ext_fields) or None
            answers.append(command)
        return answers

    def read(self, plan):
        return [self.states.get(change.address) for change in plan.changes]


def change(address, before, after, step=0):
    request = None if before == after else Request(address=address, code=17, ext_fields=after or {})
    return Change(
        target=address,
        address=address,
        action="update",
        before=before,
        after=after,
        step=step,
        request=request,
    )


def run(world, *changes):
    plan = Plan(kind="topic.update", subject="t", changes=changes)
    return apply_plan(world, plan, world.read)


def test_done_unchanged_and_failed_are_listed_together() -> None:
    world = World(a={"n": "1"}, b={"n": "1"}, c={"n": "2"})
    world.broken.add("b")
    outcome = run(
        world,
        change("a", {"n": "1"}, {"n": "2"}),
        change("b", {"n": "1"}, {"n": "2"}),
        change("c", {"n": "2"}, {"n": "2"}),
    )
    assert [item.status for item in outcome.items] == ["done", "failed", "unchanged"]
    assert [error.address for error in outcome.errors] == ["b"]


def test_a_target_in_the_wanted_state_is_not_a_conflict() -> None:
    world = World(a={"n": "2"})
    outcome = run(world, change("a", {"n": "1"}, {"n": "2"}))
    assert outcome.items[0].status == "done"


def test_a_moved_target_stops_later_steps() -> None:
    world = World(a={"n": "9"}, b={"n": "1"})
    outcome = run(
        world, change("a", {"n": "1"}, {"n": "2"}), change("b", {"n": "1"}, {"n": "2"}, step=1)
    )
    assert [item.status for item in outcome.items] == ["moved", "skipped"]
    assert world.sent == []


def test_a_later_step_waits_for_the_one_before() -> None:
    world = World(a={"n": "1"}, b={"n": "1"})
    outcome = run(
        world, change("b", {"n": "1"}, {"n": "2"}, step=1), change("a", {"n": "1"}, {"n": "2"})
    )
    assert outcome.ok
    assert world.sent == ["a", "b"]


def test_an_empty_plan_needs_no_confirmation() -> None:
    world = World()
    outcome = run(world, change("a", {"n": "2"}, {"n": "2"}))
    assert outcome.ok
    assert world.sent == []


def test_a_deletion_that_did_not_happen_differs() -> None:
    world = World(a={"n": "1"})
    world.call_all = lambda requests: [command for _, command in requests]
    (item,) = run(world, change("a", {"n": "1"}, None)).items
    assert item.status == "differs"
    assert "it still exists" in item.error.message
