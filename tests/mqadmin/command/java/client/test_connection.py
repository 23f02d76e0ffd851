"""The columns of connected clients are those of the Java tool."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.online_clients import Online

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_producers_are_numbered(java: Run, online: Online) -> None:
    done = java("producerConnection -g shop -t orders")
    assert done.status == 0, done.err
    (row,) = done.out.splitlines()
    number, client, address, language, version = row.split()
    assert (number, language) == ("0001", "PYTHON")
    assert row == f"0001  {client:<32} {address:<22} {language:<8} {version}"


def test_a_group_without_clients_has_status_1(java: Run, online: Online) -> None:
    for line in ("producerConnection -g none -t orders", "consumerConnection -g none"):
        done = java(line)
        assert (done.status, done.out) == (1, "")
        assert "is connected" in done.err
    assert java("consumerStatus -g none").status == 1


def test_consumers_and_subscriptions_are_shown(java: Run, online: Online) -> None:
    lines = java("consumerConnection -g billing -b $B").out.splitlines()
    assert lines[0] == (
        "#ClientId                            #ClientAddr            #Language  #Version"
    )
    assert lines[1].split()[0] == online.client_id
    assert lines[3:5] == ["Below is subscription:", "#Topic               #SubExpression"]
    assert "orders               *" in lines
    assert lines[-3:] == [
        "ConsumeType: CONSUME_PASSIVELY",
        "MessageModel: CLUSTERING",
        "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET",
    ]


def test_the_status_names_a_file_per_client(java: Run, online: Online, folder: Path) -> None:
    done = java("consumerStatus -g billing -s")
    header, row, *rest = done.out.splitlines()
    assert header == (
        "#Index     #ClientId                                #Version             "
        "#ConsumerRunningInfoFile"
    )
    assert row.split()[:2] == ["1", online.client_id]
    assert "Same subscription in the same group of consumer" in rest
    text = (folder / row.split()[-1]).read_text()
    assert text.startswith("#Consumer Properties#\n")
    assert "#Consumer jstack#" in text


def test_the_status_of_one_client_is_its_running_information(java: Run, online: Online) -> None:
    done = java(f"consumerStatus -g billing -i {online.client_id}")
    assert done.status == 0
    assert "#Consumer Subscription#" in done.out
    assert java("consumerStatus -g billing -i other").status == 1
