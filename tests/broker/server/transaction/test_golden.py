"""Recordings of real brokers: their open transactions are continued, their check requests match."""

import gzip
import json
from pathlib import Path

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import TRANS_HALF_TOPIC
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.framing import FrameDecoder
from broker.server.configuration.settings import Settings
from broker.server.context import BrokerContext
from broker.server.tables.persistence import ConfigStore
from broker.server.transaction.bridge import TransactionalMessageBridge
from broker.server.transaction.check_round import CheckRound
from broker.server.transaction.decision import CheckRules
from broker.server.transaction.half import check_request
from broker.server.transaction.service import TransactionalMessageService
from broker.store.message_store import MessageStore


@pytest.mark.parametrize("version", ["5.3.3", "4.9.8"])
def test_check_requests_have_the_bytes_of_a_java_broker(golden: Path, version: str) -> None:
    compared = 0
    with gzip.open(golden / "frames" / f"java-{version}.jsonl.gz", "rt", encoding="utf-8") as file:
        for frame in map(json.loads, file):
            if frame["code"] != RequestCode.CHECK_TRANSACTION_STATE or frame["from"] != "server":
                continue
            (command,) = FrameDecoder().feed(bytes.fromhex(frame["hex"]))
            shown = decode_record(command.body_bytes(), check_crc=True)
            half = MessageExt(
                TRANS_HALF_TOPIC,
                shown.body,
                shown.properties_raw,
                flag=shown.flag,
                sys_flag=shown.sys_flag,
                born_timestamp=shown.born_timestamp,
                born_host_raw=shown.born_host_raw,
                store_host_raw=shown.store_host_raw,
            )
            made = check_request(
                half, shown.queue_offset, shown.physical_offset, shown.store_timestamp
            )
            assert made is not None
            fields, body = made
            assert body == command.body_bytes()
            assert {**fields, "bname": command.ext_fields["bname"]} == command.ext_fields
            compared += 1
    assert compared >= 1


@pytest.mark.parametrize("version", ["533", "498"])
def test_open_transactions_of_a_java_store_are_checked_and_no_others(
    golden_store, golden_expect, version: str
) -> None:
    name = f"transaction-{version}"
    expect = golden_expect(name)
    root = golden_store(name, copy=True) / "store"
    settings = Settings({"storePathRootDir": str(root), "fileReservedTime": "100000"})
    clock = ManualClock(expect["dumpedAt"] + 3_600_000)
    store = MessageStore(settings.store, clock=clock)
    store.load()
    store.start()
    try:
        context = BrokerContext(settings, store, clock)
        ConfigStore(settings.store.root, store.disk).load(context)
        bridge = TransactionalMessageBridge(
            store, context.offsets, clock, lambda: context.store_host
        )
        service = TransactionalMessageService(bridge, clock, lambda: context.config, lambda: None)
        asked: list[MessageExt] = []

        def ask(group: str, fields: dict[str, str], body: bytes) -> bool:
            assert group == "PG_tx"
            asked.append(decode_record(body, check_crc=True))
            return True

        rules = CheckRules(6_000, 1_000, 100_000 * 3_600_000)
        for _ in CheckRound(service, clock, rules, ask, context.topics.ensure).steps():
            pass
        open_ones = {sent["msgId"] for sent in expect["sent"] if sent.get("transaction") == "open"}
        assert {message.uniq_key for message in asked} == open_ones
        assert {message.topic for message in asked} == {"LedgerA"}
    finally:
        store.shutdown()
