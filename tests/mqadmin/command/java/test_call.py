from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from broker.common.java import INT32_MAX
from mqadmin.admin.result import Outcome, Plan
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.java import call as module
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.names import JAVA_NAMES

Run = Callable[..., Any]


def call(name: str, values: Mapping[str, str]) -> JavaCall:
    return JavaCall(cast(Session, None), JAVA_NAMES[name.lower()], values)


def test_a_number_is_read_within_its_limits() -> None:
    made = call("updateTopic", {"r": "4", "w": "x", "p": "-1"})
    assert (made.number("r"), made.whole("r"), made.whole("o", 7)) == (4, 4, 7)
    with pytest.raises(UsageFault, match="-w/--writeQueueNums: 'x' is not an integer"):
        made.number("w")
    with pytest.raises(UsageFault, match="must be between 0"):
        made.number("p")
    assert call("updateTopic", {"r": "2147483647"}).number("r", highest=INT32_MAX) == INT32_MAX
    for text in ("1_0", " 1", "\u0661"):
        with pytest.raises(UsageFault, match="is not an integer"):
            call("updateTopic", {"r": text}).number("r")
    with pytest.raises(UsageFault, match="must be between 0 and 2147483647"):
        call("updateTopic", {"r": "2147483648"}).number("r", highest=INT32_MAX)


def test_a_truth_value_is_true_or_false_in_any_case() -> None:
    made = call("updateTopic", {"o": "True", "u": "yes"})
    assert made.truth("o") is True
    assert made.truth("s", default=False) is False
    with pytest.raises(UsageFault, match="not true or false"):
        made.truth("u")


def test_a_choice_is_one_of_its_words() -> None:
    assert call("updateOrderConf", {"m": "get"}).choice("m", ("get", "put")) == "get"
    with pytest.raises(UsageFault, match="not one of get, put"):
        call("updateOrderConf", {"m": "GET"}).choice("m", ("get", "put"))


def test_one_target_is_required_where_java_would_take_every_cluster() -> None:
    assert call("cleanExpiredCQ", {"b": "x"}).one_of("b", "c") == "b"
    with pytest.raises(UsageFault, match="is missing: acts on every cluster"):
        call("cleanExpiredCQ", {}).one_of("b", "c", why="acts on every cluster")
    with pytest.raises(UsageFault, match="exclude each other"):
        call("cleanExpiredCQ", {"b": "x", "c": "y"}).one_of("b", "c")


def test_an_interval_repeats_until_it_is_interrupted(
    java: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", sleep)
    done = java("clusterList -i 2")
    assert done.status == 130
    assert done.out.count("#Cluster Name") == 3
    assert waits == [2, 2, 2]


def test_a_plan_is_announced_before_it_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    plan = Plan(kind="topic.delete", subject="orders", changes=[])
    outcome = Outcome(kind=plan.kind, subject=plan.subject, items=[], errors=[])

    class Library:
        def apply(self, applied: Plan) -> Outcome:
            assert applied is plan
            steps.append("apply")
            return outcome

    made = call("deleteTopic", {})
    monkeypatch.setattr(made, "scope", lambda announced: steps.append("scope"))
    monkeypatch.setattr(made, "errors", lambda errors, some_worked: steps.append("errors"))
    assert made.apply(Library(), plan) == []
    assert steps == ["scope", "apply", "errors"]
