"""``mqadmin consumer running`` and ``stack``, with a connected client."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from tests.mqadmin.command.test_schemas import problems
from tests.support.live_broker import SMALL
from tests.support.online_clients import Online, online_clients

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    store = str(tmp_path_factory.mktemp("store"))
    with BlockingEmbeddedBroker(store, SMALL) as broker, online_clients(broker) as running:
        yield running


@pytest.mark.parametrize("verb", ["running", "stack"])
def test_the_output_matches_its_schema(mqadmin: Run, online: Online, verb: str) -> None:
    words = ("consumer", verb, "billing", "-n", online.broker.namesrv_address)
    done = mqadmin(*words, "-o", "json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    schema = json.loads(mqadmin("consumer", verb, "-o", "schema").out)
    assert problems(document, schema, schema) == []
    assert document["items"][0]["clientId"] == online.client_id
    assert mqadmin(*words).out.count(online.client_id) == len(document["items"])


def test_a_group_without_clients_has_status_1(mqadmin: Run, online: Online) -> None:
    done = mqadmin("consumer", "stack", "none", "-n", online.broker.namesrv_address)
    assert done.status == 1
    assert "no client of group none is connected" in done.err


def test_an_unknown_client_has_status_1(mqadmin: Run, online: Online) -> None:
    words = ("consumer", "running", "billing", "--client", "other")
    done = mqadmin(*words, "-n", online.broker.namesrv_address)
    assert done.status == 1
    assert online.client_id in done.err
