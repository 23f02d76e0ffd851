"""Lists of topics, and plans of many topics that read each broker's table once."""

import json
from typing import Any

import pytest

from broker.errors import ConfigError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.plans.topics import BulkTopics, TopicEntry, parse_topic_list
from mqadmin.admin.topic import TopicAdmin
from tests.support.fake_brokers import Answer
from tests.support.json_mutations import failures

T = TopicEntry(topic="t", read_queues=4, write_queues=2, perm=6, order=True, attributes=["+a=b"])


@pytest.mark.parametrize(
    "text",
    [
        "topic,readQueueNums,writeQueueNums,perm,order,attributes\nt,4,2,rw,true,a=b\n",
        'topic,readQueueNums,writeQueueNums,perm,order,attributes\nt,4,2,6,true,"{""a"":""b""}"\n',
        (
            '[{"topic":"t","readQueueNums":4,"writeQueueNums":2,"perm":6,"order":true,'
            '"attributes":{"a":"b"}}]'
        ),
        (
            '{"items":[{"topic":"t","readQueueNums":4,"writeQueueNums":2,"perm":"rw","order":true,'
            '"attributes":{"a":"b"},"clusterName":null}]}'
        ),
    ],
)
def test_each_form_of_a_list_gives_the_same_entry(text: str) -> None:
    assert parse_topic_list(text, "f") == [T]


def test_plain_names_one_per_line() -> None:
    names = [one.topic for one in parse_topic_list("a\n\n# old\nb  # kept\n", "f")]
    assert names == ["a", "b"]


def test_json_objects_one_per_line() -> None:
    names = [one.topic for one in parse_topic_list('{"topic":"a"}\n{"topic":"b"}\n', "f")]
    assert names == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it names no topic"),
        ("[1]", "not a list of objects"),
        ('[{"topic":""}]', "no topic in"),
        ("topic,queues\nt,1\na=b,1\n", "topic 'a=b': The specified topic contains"),
        ('[{"topic":"t","queue":1}]', "'queue' is not a field"),
        ("topic,queues\nt,many\n", "queues 'many' is not a number of queues"),
        ("topic,order\nt,perhaps\n", "order 'perhaps' is not true or false"),
        ("topic,queues\nt,1\nt,2\n", "topic t is named twice"),
        ('[{"topic":"t"', "topic list f.csv"),
    ],
)
def test_other_lists_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_topic_list(text, "f.csv")
    assert reason in failed.value.message


def test_an_option_applies_where_the_entry_has_no_setting_of_its_kind() -> None:
    given = TopicEntry(topic="", queues=8, perm=6, order=False, attributes=["+c=d"], broker="x")
    assert T.with_defaults(given) == TopicEntry(
        topic="t",
        queues=8,
        read_queues=4,
        write_queues=2,
        perm=6,
        order=True,
        attributes=["+a=b"],
        broker="x",
    )
    kept = TopicEntry(topic="t", perm=0, order=False).with_defaults(T)
    assert (kept.perm, kept.order, kept.read_queues, kept.broker) == (0, False, 4, None)


@pytest.mark.parametrize(
    ("entry", "given", "text"),
    [
        (
            TopicEntry(topic="t", cluster="A"),
            TopicEntry(topic="", cluster="B"),
            "topic t: the list names cluster A, --cluster is B",
        ),
        (
            TopicEntry(topic="t", broker="a"),
            TopicEntry(topic="", broker="b"),
            "topic t: the list names broker a, --broker is b",
        ),
    ],
)
def test_a_target_of_the_list_and_another_option_are_refused(
    entry: TopicEntry, given: TopicEntry, text: str
) -> None:
    with pytest.raises(ConfigError) as failed:
        entry.with_defaults(given)
    assert failed.value.message == text
    assert entry.with_defaults(entry) == entry


def test_settings_are_the_arguments_of_a_plan(admin: Any) -> None:
    named = TopicEntry(topic="new", queues=3, perm=6, order=False, broker="broker-a")
    plan = TopicAdmin(admin).plan_create(named.topic, **named.settings())
    (change,) = plan.changes
    assert change.target == "broker-a"
    assert (change.after or {})["readQueueNums"] == 3


@pytest.fixture
def bulk(admin: Any) -> BulkTopics:
    return BulkTopics(admin)


def test_many_topics_are_one_plan_with_one_request_per_broker(bulk: Any, cluster: Any) -> None:
    names = [f"t{number}" for number in range(50)]
    plan = bulk.plan_many("topic.create", lambda one: [one.plan_create(n) for n in names])
    assert (plan.kind, plan.subject, len(plan.changes)) == ("topic.create", "50 topics", 100)
    assert len(cluster.asked(RequestCode.GET_ALL_TOPIC_CONFIG)) == 2
    assert not cluster.asked(RequestCode.GET_TOPIC_CONFIG)
    done = bulk.apply(plan)
    assert done.ok
    assert {item.target for item in done.items} >= {"t0 broker-a", "t49 broker-b"}
    assert len(cluster.asked(RequestCode.GET_ALL_TOPIC_CONFIG)) == 6  # before, and read back


def test_a_failed_deletion_of_one_topic_does_not_keep_the_route_of_another(
    bulk: Any, broker_a: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        assert bulk.apply(bulk.plan_create(name, broker="broker-a")).ok
    names = ["bad", "good"]
    plan = bulk.plan_many("topic.delete", lambda one: [one.plan_delete(n) for n in names])
    delete = broker_a.on_215

    def refusing(header: Any, command: Any) -> None:
        if header.topic == "bad":
            raise Answer(1, "no")
        delete(header, command)

    monkeypatch.setattr(broker_a, "on_215", refusing)
    done = bulk.apply(plan)
    found = {item.target: item.status for item in done.items}
    assert found["bad broker-a"] == "failed"
    assert found["good broker-a"] == "done"
    assert {s for target, s in found.items() if target.startswith("bad namesrv")} == {"skipped"}
    assert {s for target, s in found.items() if target.startswith("good namesrv")} == {"done"}


def test_a_dead_broker_is_one_error_of_the_plan(bulk: Any, broker_b: Any) -> None:
    broker_b.down = True
    plan = bulk.plan_many("topic.create", lambda one: [one.plan_create(n) for n in ("a", "b")])
    assert len(plan.changes) == 2
    assert [error.kind for error in plan.errors] == ["unreachable"]


def test_a_json_list_with_a_value_of_another_type_is_read_or_refused() -> None:
    row = {
        "topic": "t",
        "queues": 4,
        "readQueueNums": 4,
        "writeQueueNums": 2,
        "perm": 6,
        "order": True,
        "attributes": {"a": "b"},
        "clusterName": "c",
        "brokerName": "b",
    }

    def read(document: object) -> None:
        for entry in parse_topic_list(json.dumps(document), "f"):
            assert isinstance(entry.topic, str)
            assert entry.cluster is None or isinstance(entry.cluster, str)
            assert entry.broker is None or isinstance(entry.broker, str)

    for document in ([row], {"items": [row]}, row):
        accepted, wrong = failures(read, document, ConfigError)
        assert wrong == []
        assert accepted > 0


@pytest.mark.parametrize("name", ["brokerName", "clusterName"])
@pytest.mark.parametrize("value", [5, ["b"], {"b": 1}, True])
def test_a_broker_or_cluster_that_is_not_a_name_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"topic t: {name} .* is not a name"):
        parse_topic_list(json.dumps([{"topic": "t", name: value}]), "f")
