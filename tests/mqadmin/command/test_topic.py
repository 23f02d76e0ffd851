import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import BrokerError, ClientError, ConnectError, RequestTimeoutError
from mqadmin.admin.result import (
    Change,
    ChangeResult,
    Listing,
    Outcome,
    Plan,
    Request,
    TargetError,
)
from mqadmin.admin.topic import RouteBroker, RouteQueue, TopicRecord, TopicRoute, TopicStatus

Run = Callable[..., Any]

RECORDS = (
    TopicRecord(
        topic="orders",
        cluster_name="DefaultCluster",
        broker_name="broker-a",
        read_queue_nums=8,
        write_queue_nums=8,
        perm=6,
        order=False,
        attributes={"message.type": "NORMAL"},
    ),
    TopicRecord(topic="%RETRY%billing", cluster_name="DefaultCluster", broker_name="broker-a"),
)

CHANGE = Change(
    target="broker-a",
    address="127.0.0.1:10911",
    action="update",
    before={"perm": 6, "readQueueNums": 8},
    after={"perm": 4, "readQueueNums": 8},
    request=Request(address="127.0.0.1:10911", code=17),
)
PLAN = Plan(kind="topic.perm", subject="orders", changes=(CHANGE,))
DONE = Outcome(
    kind="topic.perm",
    subject="orders",
    items=(
        ChangeResult(
            target="broker-a",
            address="127.0.0.1:10911",
            action="update",
            status="done",
            before=CHANGE.before,
            after=CHANGE.after,
            read_back=CHANGE.after,
        ),
    ),
)
UNREACHABLE = TargetError(
    kind="unreachable", message="no connection to 127.0.0.1:20911", address="127.0.0.1:20911"
)


def test_list_as_a_table(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["topic.list"] = Listing(items=RECORDS)
    done = mqadmin("topic", "list", "--cluster", "DefaultCluster", "--user")
    assert (done.status, done.err) == (0, "")
    assert admin.calls == [
        ("topic.list", (), {"cluster": "DefaultCluster", "include_system": False})
    ]
    assert admin.closed
    screen("topic-list.txt", done.out)


def test_list_as_json(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["topic.list"] = Listing(items=RECORDS)
    done = mqadmin("-o", "json", "topic", "list")
    assert done.status == 0
    assert json.loads(done.out)["schema"] == "mqadmin.topic.list/1"
    screen("topic-list.json", done.out)


def test_a_target_that_failed_is_named_and_the_status_is_partly(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.list"] = Listing(items=RECORDS, errors=[UNREACHABLE])
    done = mqadmin("topic", "list", "-o", "json")
    assert done.status == 5
    assert json.loads(done.out)["errors"][0]["address"] == "127.0.0.1:20911"
    assert json.loads(done.err)["error"]["kind"] == "unreachable"


def test_when_every_target_failed_the_status_is_theirs(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.list"] = Listing(items=(), errors=[UNREACHABLE])
    assert mqadmin("topic", "list").status == 3


def test_show_of_an_unknown_topic_is_a_no(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.show"] = Listing(items=())
    done = mqadmin("topic", "show", "nosuch")
    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines() == [
        "error: no broker has topic nosuch",
        "hint: mqadmin topic list lists the topics",
    ]


def test_a_no_is_one_object_for_programs(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.show"] = Listing(items=())
    done = mqadmin("topic", "show", "nosuch", "-o", "json")
    assert (done.status, json.loads(done.out)["items"]) == (1, [])
    assert json.loads(done.err)["error"]["kind"] == "notFound"


def test_route_as_sections(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["topic.route"] = TopicRoute(
        topic="orders",
        brokers=(
            RouteBroker(
                cluster_name="DefaultCluster",
                broker_name="broker-a",
                broker_addrs={"0": "127.0.0.1:10911"},
            ),
        ),
        queues=(
            RouteQueue(
                broker_name="broker-a",
                read_queue_nums=8,
                write_queue_nums=8,
                perm=6,
                topic_sys_flag=0,
            ),
        ),
    )
    done = mqadmin("topic", "route", "orders")
    assert done.status == 0
    screen("topic-route.txt", done.out)
    screen("topic-route.json", mqadmin("topic", "route", "orders", "-o", "json").out)


def test_status_shows_times_in_words(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["topic.status"] = Listing(
        items=[
            TopicStatus(
                broker_name="broker-a",
                queue_id=queue_id,
                min_offset=0,
                max_offset=max_offset,
                last_update_timestamp=last,
            )
            for queue_id, max_offset, last in ((0, 12, 1_700_000_000_000), (1, 0, None))
        ]
    )
    done = mqadmin("topic", "status", "orders")
    assert done.status == 0
    screen("topic-status.txt", done.out)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConnectError("no connection", address="127.0.0.1:9876"), 3),
        (RequestTimeoutError("no answer", address="127.0.0.1:9876"), 3),
        (BrokerError(17, "no route info", "127.0.0.1:9876", request_code=105), 1),
        (BrokerError(2, "busy", "127.0.0.1:9876", request_code=105), 4),
        (BrokerError(1, "org.apache.rocketmq.acl.common.AclException: no", "h:1"), 6),
        (ClientError("no route for topic orders", "mqadmin topic list"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_map_to_statuses(mqadmin: Run, admin: Any, error: Any, status: int) -> None:
    admin.answers["topic.route"] = error
    done = mqadmin("topic", "route", "orders")
    assert (done.status, done.out) == (status, "")
    if status != 130:
        assert done.err.startswith("error: ")


def test_an_error_as_one_object(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.route"] = BrokerError(17, "none", "127.0.0.1:9876", request_code=105)
    error = json.loads(mqadmin("topic", "route", "orders", "-o", "json").err)["error"]
    assert error["kind"] == "refused"
    assert (error["address"], error["requestCode"], error["responseCode"]) == (
        "127.0.0.1:9876",
        105,
        17,
    )


def test_a_change_without_consent_sends_no_request(mqadmin: Run, admin: Any) -> None:
    done = mqadmin("topic", "perm", "orders", "r")
    assert (done.status, done.out) == (2, "")
    assert "--yes" in done.err
    assert "nothing was changed" in done.err
    assert admin.calls == []


HEADER = (
    "context -, cluster DefaultCluster, name server ns:9876, "
    "broker name-of-127.0.0.1:10911 (127.0.0.1:10911)\n"
)


@pytest.mark.parametrize("consent", ["--dry-run", "--yes", ""])
def test_a_change_starts_with_the_cluster_it_applies_to(
    mqadmin: Run, admin: Any, monkeypatch: pytest.MonkeyPatch, consent: str
) -> None:
    admin.answers.update({"topic.plan_perm": PLAN, "apply": DONE})
    monkeypatch.setattr("mqadmin.command.execution.session.stdin_is_terminal", lambda: True)
    mqadmin("context", "set", "prod", "-n", "prod:9876")
    mqadmin("context", "use", "prod")
    words = [word for word in ("topic", "perm", "orders", "r", consent) if word]
    done = mqadmin(*words, stdin="n\n")
    assert done.err.startswith(HEADER.replace("context -", "context prod"))
    assert "warning" not in done.err
    if not consent:
        question = done.err.splitlines()[-1]
        assert "context prod, cluster DefaultCluster, name server ns:9876: change" in question

    monkeypatch.setenv("NAMESRV_ADDR", "test:9876")
    done = mqadmin(*words, stdin="n\n")
    assert (
        "warning: environment NAMESRV_ADDR (test:9876) overrides namesrv of the current context "
        "prod (prod:9876)\n"
    ) in done.err


def test_a_dry_run_prints_the_plan_and_is_marked_in_the_last_line(
    mqadmin: Run, admin: Any, screen: Any
) -> None:
    admin.answers["topic.plan_perm"] = PLAN
    done = mqadmin("topic", "perm", "orders", "r", "--dry-run")
    assert (done.status, done.err) == (0, HEADER)
    assert [name for name, _, _ in admin.calls] == ["topic.plan_perm"]
    assert done.out.splitlines()[-1] == "dry run: nothing was changed"
    screen("topic-perm-dry-run.txt", done.out)


def test_a_dry_run_in_json_keeps_stdout_for_data(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.plan_perm"] = PLAN
    done = mqadmin("--dry-run", "topic", "perm", "orders", "r", "-o", "json")
    item = json.loads(done.out)["items"][0]
    assert item["status"] == "planned"
    assert item["before"]["perm"] == 6
    assert item["after"]["perm"] == 4
    assert "change" not in item
    assert done.err.splitlines()[-1] == "dry run: nothing was changed"


def test_a_change_is_applied_and_shown_before_and_after(
    mqadmin: Run, admin: Any, screen: Any
) -> None:
    admin.answers.update({"topic.plan_perm": PLAN, "apply": DONE})
    done = mqadmin("topic", "perm", "orders", "r", "-y")
    assert done.status == 0
    assert admin.calls[-1] == ("apply", (PLAN,), {})
    screen("topic-perm.txt", done.out)


def test_a_yes_on_the_terminal_applies(
    mqadmin: Run, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.answers.update({"topic.plan_perm": PLAN, "apply": DONE})
    monkeypatch.setattr("mqadmin.command.execution.session.stdin_is_terminal", lambda: True)
    done = mqadmin("topic", "perm", "orders", "r", stdin="y\n")
    assert done.status == 0
    assert "perm 6 -> 4" in done.err
    assert admin.calls[-1][0] == "apply"


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_anything_but_yes_leaves_everything_as_it_is(
    mqadmin: Run, admin: Any, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    admin.answers["topic.plan_perm"] = PLAN
    monkeypatch.setattr("mqadmin.command.execution.session.stdin_is_terminal", lambda: True)
    done = mqadmin("topic", "perm", "orders", "r", stdin=answer)
    assert done.status == 1
    assert done.err.endswith("nothing was changed\n")
    assert [name for name, _, _ in admin.calls] == ["topic.plan_perm"]


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["done", "done"], 0),
        (["done", "failed"], 5),
        (["failed", "skipped"], 4),
        (["moved"], 8),
        (["done", "differs"], 8),
    ],
)
def test_the_outcome_of_a_change_is_the_status(
    mqadmin: Run, admin: Any, statuses: list[str], status: int
) -> None:
    refused = TargetError(kind="refused", message="no", response_code=1)
    items = [
        ChangeResult(
            target=f"b{n}",
            address="h:1",
            action="update",
            status=word,
            error=refused if word == "failed" else None,
        )
        for n, word in enumerate(statuses)
    ]
    outcome = Outcome(kind="topic.perm", subject="orders", items=items)
    admin.answers.update({"topic.plan_perm": PLAN, "apply": outcome})
    assert mqadmin("topic", "perm", "orders", "r", "--yes").status == status


def test_a_plan_with_nothing_to_do_applies_nothing(mqadmin: Run, admin: Any) -> None:
    idle = Change(target="b", address="h:1", action="none", before={"perm": 4}, after={"perm": 4})
    admin.answers["topic.plan_perm"] = Plan(kind="topic.perm", subject="o", changes=(idle,))
    done = mqadmin("topic", "perm", "orders", "r", "--yes")
    assert done.status == 0
    assert "nothing to do" in done.err


def test_an_existing_topic_is_left_unchanged_and_not_as_asked(mqadmin: Run, admin: Any) -> None:
    kept = {"readQueueNums": 4}
    idle = Change(target="b", address="h:1", action="update", before=kept, after=kept)
    admin.answers["topic.plan_create"] = Plan(
        kind="topic.create", subject="orders", changes=(idle,), warnings=["topic orders exists"]
    )
    done = mqadmin("topic", "create", "orders", "--if-not-exists", "--yes")
    assert done.status == 0
    assert "warning: topic orders exists\n" in done.err
    assert "nothing to do: every target has orders already; left unchanged\n" in done.err
    assert "as asked" not in done.err


def test_create_passes_on_every_option(mqadmin: Run, admin: Any) -> None:
    admin.answers.update({"topic.plan_create": PLAN, "apply": DONE})
    line = (
        "topic create orders --queues 4 --write-queues 2 --perm r --order -y "
        "--attribute +message.type=FIFO -a -old --cluster C --if-not-exists"
    )
    done = mqadmin(*line.split())
    assert done.status == 0
    assert admin.calls[0] == (
        "topic.plan_create",
        ("orders",),
        {
            "queues": 4,
            "read_queues": None,
            "write_queues": 2,
            "perm": 4,
            "order": True,
            "attributes": ["+message.type=FIFO", "-old"],
            "cluster": "C",
            "broker": None,
            "if_not_exists": True,
        },
    )


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "create", "bad name"],
        ["topic", "create", "o", "--queues", "0"],
        ["topic", "create", "o", "--perm", "x"],
        ["topic", "create", "o", "--attribute", "plain"],
        ["topic", "create"],
        ["topic", "nosuch"],
        ["nosuch"],
        ["topic", "list", "--nosuch"],
    ],
)
def test_a_command_line_that_cannot_be_meant_is_a_usage_error(
    mqadmin: Run, admin: Any, words: list[str]
) -> None:
    done = mqadmin(*words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert "\nhint: " in done.err
    assert admin.calls == []
    as_json = mqadmin(*words, "-o", "json") if words != ["nosuch"] else mqadmin("-ojson", *words)
    assert json.loads(as_json.err)["error"]["kind"] == "usage"
