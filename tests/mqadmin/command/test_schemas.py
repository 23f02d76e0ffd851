"""The output of every command matches its ``-o schema``, in every format."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.message.recall_handle import RecallHandle, encode_recall_handle
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.body.consumer.heartbeat import HeartbeatData
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.command.framework.nouns import NOUNS, load_noun
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk

Run = Callable[..., Any]

SMALL = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "500", "maxIndexNum": "2000"}

HEARTBEAT = {
    "clientID": "127.0.0.1@schemas",
    "consumerDataSet": [
        {
            "groupName": "g",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [
                {"topic": "orders", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
            ],
            "unitMode": False,
        }
    ],
    "producerDataSet": [],
}

# Every command but "pipeline run", whose jobs have a separate test below. The order matters:
# later lines change and delete the objects that a line creates. The test fills in {…}.
LINES = [
    "topic create made --queues 2 --yes",
    "topic create planned --dry-run",
    "topic create planned --plan {out}.plan",
    "apply {out}.plan --dry-run",
    "offset reset idle --topic orders --to latest --plan {out}.offsets.plan",
    "apply {out}.offsets.plan --dry-run",
    "topic update made --write-queues 1 --yes",
    "topic perm made r --yes",
    "topic show made",
    "topic delete made --yes",
    "topic list",
    "topic list ord*",
    "topic show orders",
    "topic route orders",
    "topic status orders",
    "topic static create fixed --queues 2 --yes",
    "topic static update fixed --queues 3 --yes",
    "topic static remap fixed --dry-run",
    "topic static show fixed",
    "msg send orders --body x --key k --tags t",
    "msg query --topic orders --key 42",
    "msg query --topic orders --key 42 --body text",
    "msg query --topic orders --key none",
    "msg query --topic nosuch --key none",
    "msg show {id}",
    "msg tail orders --last 3 --no-follow",
    "msg produce orders --from {lines} --input-format lines",
    "msg produce orders --from {lines} --input-format lines --dry-run",
    "msg produce orders --from {lines} --input-format lines --results",
    "msg produce orders --from {lines} --input-format ndjson",
    "msg consume orders --start earliest --idle 300ms",
    "msg consume orders --group idle --no-commit --start earliest --idle 300ms",
    "bench produce orders --count 5 --warm-up 0s",
    "bench consume orders --count 5",
    "bench roundtrip orders --count 5 --warm-up 0s --group benched",
    "msg decode-id {id}",
    "msg decode-id {uniq}",
    "group create made --yes",
    "group update made --retry-max 2 --yes",
    "group show made",
    "group list",
    "group delete made --yes",
    "consumer list",
    "consumer lag g",
    "consumer lag --all",
    "consumer connections g",
    "consumer connections unknown",
    "consumer stats",
    "producer list",
    "producer connections p",
    "msg resend {id} --dry-run",
    "msg consume-directly {id} --group g --dry-run",
    "offset reset g --topic orders --to earliest --dry-run",
    "offset reset idle --topic orders --to earliest --yes --undo-file {undo}",
    "offset export idle",
    "offset export idle --out {out}.offsets",
    "offset import idle {out}.offsets --dry-run",
    "offset clone g idle --dry-run",
    "offset undo {undo} --dry-run",
    "offset at orders --since -1h",
    "consumer lag idle --clients",
    "offset show idle",
    "metadata export",
    "metadata export --out {out}.metadata",
    "metadata diff {out}.metadata --settings",
    "metadata apply {out}.metadata --dry-run",
    "dlq list",
    "dlq show g",
    "dlq stats g",
    "dlq export g --out {out}.dead",
    "dlq purge g --reader idle --no-export --dry-run",
    "dlq replay g --to orders --dry-run --ledger {ledger}",
    "dlq replay g --to orders --yes --ledger {ledger}",
    "msg track {id}",
    "msg track --topic orders --queue 0 --offset 0 --group g",
    "msg trace none --trace-topic orders",
    "consumer mode idle",
    "consumer mode idle --topic orders --set pop --yes",
    "consumer mode idle --topic orders",
    "consumer mode g --topic orders --assignments",
    "consumer lag idle --pop",
    "delay levels",
    "delay levels --store {golden_delay}",
    "delay pending",
    "delay pending --store {golden_delay}",
    "timer list",
    "timer list --store {golden_delay}",
    "timer recall {handle} --dry-run",
    "tx list",
    "tx list --store {golden_tx}",
    "tx show {tx} --store {golden_tx}",
    "tx show none",
    "tx resume {id} --dry-run",
    "cluster list",
    "cluster doctor",
    "cluster top --once",
    "topic stats",
    "topic stats orders",
    "topic top --once",
    "consumer doctor --timeout 2s",  # a client that the fixture connects does not answer
    "java list",
    "broker config set broker-a brokerPermission=6 --yes",
    "broker config diff",
    "broker connections",
    "broker stats --topic orders",
    "broker clean expired-queues broker-a --yes",
    "broker clean unused-topics broker-a --yes",
    "broker clean expired-log broker-a --yes",
    "namesrv config show",
    "namesrv config set waitSecondsForService=45 --yes",
    "namesrv kv put NS key value --yes",
    "namesrv kv list NS",
    "namesrv kv get NS key",
    "namesrv kv delete NS key --yes",
    "namesrv write-perm wipe broker-a --yes",
    "namesrv write-perm add broker-a --yes",
    "topic allocate orders a b",
    "broker status",
    "broker config show",
    "broker ha",
    "check replication --in-sync 0",
    "check broker",
    "check lag g",
    "check dlq",
    "check disk --warn 100% --crit 100%",
    "check namesrv",
    "check store {golden}",
    "check clock",
    "check certificate {broker}",
    "store inspect {store}",
    "store inspect {store} --kind consumequeue",
    "store inspect {store} --kind index",
    "store inspect {golden} --kind checkpoint",
    "store inspect {store} --kind config",
    "store inspect {store}/abort",
    "store inspect {store} --summary",
    "store inspect {golden}",
    "store inspect {golden} --kind consumequeue",
    "store inspect {golden} --kind index",
    "store inspect {golden} --kind config",
    "store inspect {golden} --summary",
    "store inspect {golden_delay} --kind timerwheel",
    "store inspect {golden_delay} --kind timerlog",
    "store inspect {golden_delay} --kind ext",
    "store inspect {golden_delay} --kind pop",
    "store inspect {golden_tx} --kind transaction",
    "store inspect {store} --kind static",
    "store inspect {damaged}",
    "store inspect {damaged} --summary",
    "store find {store} --key 42 --topic orders",
    "store find {golden} --text a",
    "store layout",
    "store diff {golden} {golden}",
    "store diff {broker} {broker}",
    "store diff {golden} {damaged}",
    "store stats {golden}",
    "store stats {store} --by key",
    "store stats {golden} --by size",
    "store copy {store} --out {copy} --dry-run",
    "store copy {store} --out {copy}",
    "store trim {rolled} --keep-bytes 0",
    "store trim {rolled} --keep-bytes 0 --out {trimmed} --yes",
    "store export {store}",
    "store export {store} --out {out}.csv",
    "store import {store} --topic orders --to orders --ledger {ledger}.import --dry-run",
    "store import {store} --topic orders --to orders --ledger {ledger}.import --yes",
    "store repair {damaged}",
    "store repair {damaged} --out {repaired} --yes",
    "store repair {golden} --diverged-at {cut}",
    "store repair {golden} --diverged-at {cut} --out {cut_store} --records {cut_records} --yes",
    "store recover {damaged}",
    "store recover {damaged} --out {recovered}.plan --dry-run",
    "store recover {damaged} --out {recovered}",
    "store verify {golden}",
    "store verify {damaged}",
    "store verify {damaged} --summary",
    "store queue {store}",
    "store queue {store} --topic orders --units",
    "store index {store}",
    "store index {store} --entries",
    "store config {store}",
    "store watch {store} --rounds 1",
    "pipeline list",
    "pipeline schema traffic",
    "context set prod --namesrv 10.0.0.1:9876",
    "context list",
    "context show",
    "context show --origin",
    "context use prod",
    "context delete prod --yes",
]

# Shown to a person only: programs get the same as part of another output.
TABLE_ONLY = {"mqadmin.store.watch.topics/1", "mqadmin.store.find.places/1"}

# A table and a CSV of these have a line per setting.
LINE_PER_SETTING = (
    "namesrv config show",
    "broker status",
    "broker config show",
    "store config",
    "--kind config",
)

# Their -o is a setting to be kept.
FIXED_FORM = ("context set",)


@pytest.fixture(scope="module")
def store_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schemas") / "store"


@pytest.fixture(scope="module")
def embedded(store_dir: Path) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(store_dir), SMALL) as running:
        yield running


@pytest.fixture
def words(
    mqadmin: Run,
    embedded: BlockingEmbeddedBroker,
    store_dir: Path,
    golden_store: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[dict[str, str]]:
    """A cluster with messages, dead letters, an online group; return the values of ``{…}``."""
    monkeypatch.setenv("NAMESRV_ADDR", embedded.namesrv_address)
    monkeypatch.chdir(tmp_path)
    mqadmin("topic", "create", "orders", "--queues", "2", "--yes")
    mqadmin("topic", "create", "%DLQ%g", "--queues", "1", "--yes")
    mqadmin("group", "create", "g", "--yes")
    mqadmin("group", "create", "idle", "--yes")
    sent = mqadmin("msg", "send", "orders", "--body", "two", "--key", "42", "-o", "json")
    mqadmin("msg", "send", "%DLQ%g", "--body", "dead", "--property", "RETRY_TOPIC=orders")
    (tmp_path / "lines").write_text('{"body":"one"}\ntwo\n')
    damaged = golden_store("normal-stop-533", copy=True) / "store"
    log = damaged / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[332 + 4 : 332 + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    place = json.loads(sent.out)
    with BlockingClient(timeout_ms=20_000) as client:
        body = HeartbeatData.from_bytes(json.dumps(HEARTBEAT).encode()).to_bytes()
        client.check(embedded.address, request(RequestCode.HEART_BEAT, {}, body))
        mqadmin("offset", "reset", "g", "--topic", "orders", "--to", "earliest", "--yes")
        yield {
            "id": place["offsetMsgId"],
            "uniq": place["uniqKey"],
            "store": str(store_dir),
            "golden": str(golden_store("retry-dlq-533") / "store"),
            "rolled": str(golden_store("kill9-async-533") / "store"),
            "golden_tx": str(golden_store("transaction-533") / "store"),
            "golden_delay": str(golden_store("delay-533") / "store"),
            "handle": encode_recall_handle(
                RecallHandle("orders", place["brokerName"], "1", place["uniqKey"])
            ),
            "tx": "tx-open-2",
            "damaged": str(damaged),
            "cut": last_record(golden_store("retry-dlq-533") / "store"),
            "broker": embedded.address,
        } | {
            name: str(tmp_path / name)
            for name in (
                *("undo", "ledger", "lines", "out", "repaired", "recovered"),
                *("cut_store", "cut_records", "copy", "trimmed"),
            )
        }


def last_record(store: Path) -> str:
    """The physical offset of the last record of a store."""
    places = [item.record for item in LogWalk(StoreDirectory(str(store))) if item.record]
    return str(places[-1].physical_offset)


# They need two brokers: tests/mqadmin/command/failover/test_verbs.py
SWITCHES = {"broker promote", "broker demote"}

# They need a client that responds: tests/mqadmin/command/clients/test_running.py
ASK_A_CLIENT = {"consumer running", "consumer stack"}

# They need a broker with ACL 2.0: tests/mqadmin/command/access
ACCESS = {
    f"{noun} {verb}"
    for noun in ("user", "acl")
    for verb in ("list", "get", "create", "update", "delete")
}

ELSEWHERE = {"pipeline run", "pipeline warmup"} | SWITCHES | ASK_A_CLIENT | ACCESS


def test_every_command_has_a_line_here() -> None:
    declared = {verb.path for name in NOUNS for verb in load_noun(name).verbs.values()}
    covered = {path for path in declared for line in LINES if f"{line} ".startswith(f"{path} ")}
    assert declared - covered == ELSEWHERE


def test_json_and_ndjson_match_the_schema(mqadmin: Run, words: dict[str, str]) -> None:
    seen: set[str] = set()
    for line in LINES:
        argv = line.format(**words).split()
        if line.startswith(FIXED_FORM):
            assert mqadmin(*argv).status == 0
            continue
        schema = schema_of(mqadmin, argv)
        done = mqadmin(*argv, "-o", "json")
        is_check = line.startswith("check ")
        assert done.status in (0, 1, 5, 7) or is_check, f"{line}: {done.err}"
        if done.status == 1 and not done.out:
            continue
        document = json.loads(done.out)
        assert problems(document, schema, schema) == [], line
        seen.add(document["schema"])
        for text in done.err.splitlines():
            if text.startswith("{"):
                assert list(json.loads(text)) == ["error"], line
        forms_agree(mqadmin, argv, document, schema)
    declared = {
        view.schema
        for name in NOUNS
        for verb in load_noun(name).verbs.values()
        if verb.path not in ELSEWHERE
        for view in verb.views
    }
    assert declared - seen - TABLE_ONLY == set()


def forms_agree(
    mqadmin: Run, argv: list[str], document: dict[str, Any], schema: dict[str, Any]
) -> None:
    """The other forms hold the same fields; commands that change something are not repeated."""
    if "--yes" in argv or "--out" in argv or argv[:2] == ["msg", "send"]:
        return
    again = yaml.safe_load(mqadmin(*argv, "-o", "yaml").out)
    assert problems(again, schema, schema) == [], argv
    one = "items" not in document
    rows = [document] if one else document["items"]
    lines = [json.loads(text) for text in mqadmin(*argv, "-o", "ndjson").out.splitlines()]
    if argv[:2] == ["msg", "tail"]:  # a second call may read another number of messages
        lines, rows = lines[: len(rows)], rows[: len(lines)]
        assert lines, argv
    for row, text in zip(rows, lines, strict=True):
        assert list(text) == [name for name in row if not one or name != "schema"], argv
    if any(words in " ".join(argv) for words in LINE_PER_SETTING):
        return
    head, *cells = csv.reader(io.StringIO(mqadmin(*argv, "-o", "csv").out))
    assert all(len(row) == len(head) for row in cells), argv
    if rows and head != list(rows[0]):
        assert set(head) <= set(rows[0]) | {"schema"}, argv


def schema_of(mqadmin: Run, argv: list[str]) -> dict[str, Any]:
    for count in (3, 2):
        done = mqadmin(*argv[:count], "-o", "schema")
        if done.status == 0 and done.out.startswith("{"):
            return json.loads(done.out)  # type: ignore[no-any-return]
    raise AssertionError(f"no schema: {argv}")


@pytest.mark.parametrize("name", sorted(NOUNS))
def test_every_reference_of_a_schema_leads_somewhere(mqadmin: Run, name: str) -> None:
    for verb in load_noun(name).verbs.values():
        done = mqadmin(name, *verb.words, "-o", "schema")
        assert done.status == 0, done.err
        schema = json.loads(done.out)
        for reference in re.findall(r'"\$ref": ?"([^"]*)"', done.out):
            assert resolve(reference, schema), verb.path


# --- a small validator of JSON schemas: it supports the used keywords and refuses others --

IGNORED = {"$schema", "$defs", "title", "description", "default", "format"}
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def resolve(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found  # type: ignore[no-any-return]


def is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def problems(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> list[str]:
    """The places where ``value`` violates ``schema``, undeclared fields included."""
    if "$ref" in schema:
        return problems(value, resolve(schema["$ref"], root), root, at)
    found: list[str] = []
    for word, rule in schema.items():
        if word in IGNORED or word in ("additionalProperties", "maxItems"):
            continue
        if word == "anyOf":
            arms = [problems(value, arm, root, at) for arm in rule]
            if all(arms):
                found += min(arms, key=len)
        elif word == "type":
            names = [rule] if isinstance(rule, str) else rule
            if not any(is_type(value, name) for name in names):
                found.append(f"{at}: {value!r:.60} is not {rule}")
        elif word == "const":
            found += [] if value == rule else [f"{at}: {value!r:.60} is not {rule!r}"]
        elif word == "enum":
            found += [] if value in rule else [f"{at}: {value!r:.60} is none of {rule}"]
        elif word == "required" and isinstance(value, dict):
            found += [f"{at}: no {name}" for name in rule if name not in value]
        elif word == "properties" and isinstance(value, dict):
            more = schema.get("additionalProperties")
            for name, item in value.items():
                if name in rule:
                    found += problems(item, rule[name], root, f"{at}.{name}")
                elif not more:
                    found.append(f"{at}: {name} is not declared")
        elif word == "items" and isinstance(value, list) and isinstance(rule, dict):
            for place, item in enumerate(value):
                found += problems(item, rule, root, f"{at}[{place}]")
        elif word not in ("required", "properties", "items"):
            raise AssertionError(f"the validator does not support {word!r} at {at}")
    if "properties" not in schema and isinstance(schema.get("additionalProperties"), dict):
        for name, item in value.items() if isinstance(value, dict) else ():
            found += problems(item, schema["additionalProperties"], root, f"{at}.{name}")
    return found
