"""Java's commands about access rules; those of ACL 1.0 are answered by the broker."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.access_broker import AccessTable

Run = Callable[..., Any]

CREATE = "createAcl -c DefaultCluster -s User:alice -r Topic:orders,Group:g -a Pub,Sub -d Allow"
HEADER = (
    "#Subject          #PolicyType  #Resource               #Actions              "
    "#SourceIp                 #Decision "
)


def test_rules_are_created_and_listed_in_the_columns_of_java(secured: Run) -> None:
    done = secured(CREATE)
    assert done.status == 0, done.err
    assert len(done.out.splitlines()) == 2
    header, first, second = secured("listAcl -c DefaultCluster").out.splitlines()
    assert header == HEADER
    assert first == (
        "User:alice        Custom      Topic:orders            [Pub, Sub]            "
        "null                      Allow     "
    )
    assert second.split()[2] == "Group:g"


def test_a_rule_is_changed_copied_and_deleted(secured: Run, tables: list[AccessTable]) -> None:
    secured(CREATE.replace("-c DefaultCluster", "-b $A"))
    line = "updateAcl -b $A -s User:alice -r Topic:orders -a All -d Deny -i 10.0.0.1"
    assert secured(line).status == 0
    assert "[10.0.0.1]" in secured("getAcl -b $A -s User:alice").out
    assert secured("copyAcl -f $A -t $B").out.startswith("copy acl of User:alice from ")
    assert list(tables[1].rules["User:alice"]) == ["Topic:orders", "Group:g"]
    assert secured("deleteAcl -b $B -s User:alice -r Group:g").status == 0
    assert list(tables[1].rules["User:alice"]) == ["Topic:orders"]
    assert secured("deleteAcl -c DefaultCluster -s User:alice").status == 0
    assert tables[0].rules == {}


def test_missing_rules_and_options_have_their_statuses(secured: Run) -> None:
    assert secured("getAcl -b $A").status == 2
    assert secured("getAcl -b $A -s User:bob").status == 1
    assert secured("createAcl -b $A -s alice -r Topic:t -a Pub -d Allow").status == 2
    assert secured("createAcl -b $A -s User:alice -r Topic:t -a Pub -d Maybe").status == 2


@pytest.mark.parametrize(
    "line",
    [
        "updateAclConfig -b $A -a key -s secret12",
        "deleteAclConfig -b $A -a key",
        "updateGlobalWhiteAddr -b $A -g 10.0.0.1",
        "clusterAclConfigVersion -b $A",
    ],
)
def test_old_commands_are_refused_by_the_broker(secured: Run, line: str) -> None:
    done = secured(line)
    assert (done.status, done.out) == (4, "")
    assert "REQUEST_CODE_NOT_SUPPORTED" in done.err
