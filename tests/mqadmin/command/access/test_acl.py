"""``mqadmin acl``: its options and its output."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.access.acls import AclRecord, Rule
from mqadmin.admin.result import Change, ChangeResult, Listing, Outcome, Plan, Request

Run = Callable[..., Any]

ROW = AclRecord(
    subject="User:alice",
    policy_type="Custom",
    resource="Topic:orders",
    actions=["Pub", "Sub"],
    source_ips=[],
    decision="Allow",
    cluster_name="DefaultCluster",
    broker_name="broker-a",
    address="a:1",
)
AFTER = {"Topic:orders": "Allow Pub"}


@pytest.fixture(autouse=True)
def answers(admin: Any) -> None:
    change = Change(
        target="broker-a",
        address="a:1",
        action="create",
        after=AFTER,
        request=Request(address="a:1", code=3006),
    )
    plan = Plan(kind="acl.create", subject="User:alice", changes=[change])
    for verb in ("create", "update", "delete"):
        admin.answers[f"acl.plan_{verb}"] = plan
    result = ChangeResult(
        target="broker-a", address="a:1", action="create", status="done", after=AFTER
    )
    admin.answers["apply"] = Outcome(kind="acl.create", subject="User:alice", items=[result])
    admin.answers["acl.list"] = admin.answers["acl.get"] = Listing(items=[ROW])


@pytest.mark.parametrize("words", [("list",), ("get", "User:alice")])
def test_rules_are_shown(mqadmin: Run, words: tuple[str, ...]) -> None:
    (item,) = json.loads(mqadmin("acl", *words, "-o", "json").out)["items"]
    assert (item["resource"], item["actions"]) == ("Topic:orders", ["Pub", "Sub"])


@pytest.mark.parametrize("verb", ["create", "update"])
def test_options_become_a_rule(mqadmin: Run, admin: Any, verb: str) -> None:
    words = "User:alice -r Topic:orders -r Group:g -a Pub -d Deny --source-ip 10.0.0.1 --yes"
    assert mqadmin("acl", verb, *words.split()).status == 0
    (call,) = [call for call in admin.calls if call[0] == f"acl.plan_{verb}"]
    assert call[1] == (
        Rule(
            subject="User:alice",
            resources=["Topic:orders", "Group:g"],
            actions=["Pub"],
            decision="Deny",
            source_ips=["10.0.0.1"],
        ),
    )


def test_one_rule_is_deleted(mqadmin: Run, admin: Any) -> None:
    words = ("acl", "delete", "User:alice", "--resource", "Topic:orders", "--yes")
    assert mqadmin(*words).status == 0
    (call,) = [call for call in admin.calls if call[0] == "acl.plan_delete"]
    assert call[2]["resource"] == "Topic:orders"


def test_a_rule_needs_resource_and_action(mqadmin: Run, admin: Any) -> None:
    assert mqadmin("acl", "create", "User:alice", "-r", "Topic:t", "--yes").status == 2
    assert mqadmin("acl", "create", "User:alice", "-a", "Pub", "--yes").status == 2
    assert admin.calls == []


def test_a_subject_without_rules_has_status_1(mqadmin: Run, admin: Any) -> None:
    admin.answers["acl.get"] = Listing(items=[])
    assert mqadmin("acl", "get", "User:bob").status == 1
