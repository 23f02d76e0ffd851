"""Every file of every recorded store decodes, agrees with the Java client, and encodes back."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.message.batch import unwrap_inner_batch
from broker.message.message import MessageExt
from broker.message.record import encode_record
from broker.store.format import config
from broker.store.format.checkpoint import FILE_SIZE as CHECKPOINT_SIZE
from broker.store.format.checkpoint import decode_checkpoint, encode_checkpoint
from broker.store.format.commitlog import (
    Blank,
    LogRecord,
    Unwritten,
    encode_blank,
    scan_commitlog,
)
from broker.store.format.consumequeue import decode_batch_unit, decode_unit
from broker.store.format.indexfile import (
    decode_header,
    encode_header,
    entry_position,
    index_key_hash,
    probe_slot_count,
    scan_entries,
    walk_chain,
)
from broker.store.format.timer import decode_timer_checkpoint, encode_timer_checkpoint
from tests.support.store_units import encode_batch_unit, encode_entry, encode_unit

STORES = sorted(
    path.name.removesuffix(".tar.xz")
    for path in (Path(__file__).parents[3] / "golden" / "stores").glob("*.tar.xz")
)
Unpack = Callable[..., Path]


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def roots(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir()]


def records(root: Path) -> Iterator[MessageExt]:
    for path in sorted((root / "commitlog").iterdir()):
        for item in scan_commitlog(path.read_bytes(), int(path.name)):
            if isinstance(item, LogRecord):
                assert item.message is not None
                yield item.message


def test_every_log_encodes_back_to_the_same_bytes(name: str, golden_store: Unpack) -> None:
    for root in roots(golden_store(name)):
        for path in sorted((root / "commitlog").iterdir()):
            data = path.read_bytes()
            built = bytearray()
            for item in scan_commitlog(data, int(path.name)):
                if isinstance(item, LogRecord):
                    built += encode_record(item.message)
                elif isinstance(item, Blank):
                    built += encode_blank(item.length)
                else:
                    assert isinstance(item, Unwritten), item
            assert data.startswith(built)


def test_every_message_equals_that_of_the_java_client(
    name: str, golden_store: Unpack, golden_expect: Callable[[str], dict]
) -> None:
    root = roots(golden_store(name))[0]
    stored = {}
    for record in records(root):
        for message in unwrap_inner_batch(record):
            place = (message.topic, message.queue_id, message.queue_offset)
            stored[(*place, message.physical_offset)] = message, record
    for seen in golden_expect(name)["messages"]:
        place = (seen["topic"], seen["queueId"], seen["queueOffset"], seen["physicalOffset"])
        message, record = stored[place]
        assert (message.flag, message.reconsume_times) == (seen["flag"], seen["reconsumeTimes"])
        assert message.born_timestamp == seen["bornTimestamp"]
        assert message.store_timestamp == seen["storeTimestamp"]
        assert message.prepared_transaction_offset == seen["preparedTransactionOffset"]
        payload = message.payload()
        assert (len(payload), zlib.crc32(payload)) == (seen["bodyLength"], seen["bodyCrc32"])
        assert message.tags == seen.get("tags")
        if message is record:  # the client knows no place of a message within a batch
            assert message.offset_msg_id == seen["offsetMsgId"]
            assert message.total_size == seen["storeSize"]
            assert message.body_crc == seen["storedBodyCrc"]
            # A client clears the flags of bodies that it has decompressed.
            assert message.sys_flag & ~0x701 == seen["sysFlag"] & ~0x701
        # A client adds these two, so the recording left them out even where they are stored.
        added = {"MIN_OFFSET", "MAX_OFFSET"}
        kept = {k: v for k, v in message.properties.items() if k not in added}
        assert kept == seen["properties"]


def test_every_queue_encodes_back_to_the_same_bytes(name: str, golden_store: Unpack) -> None:
    for root in roots(golden_store(name)):
        for path in root.glob("consumequeue/*/*/*"):
            data = path.read_bytes()
            units = [decode_unit(data, at) for at in range(0, len(data), 20)]
            assert b"".join(encode_unit(*unit) for unit in units) == data
        for path in root.glob("batchconsumequeue/*/*/*"):
            data = path.read_bytes()
            batches = [decode_batch_unit(data, at) for at in range(0, len(data), 46)]
            assert b"".join(map(encode_batch_unit, batches)) == data


def test_every_index_encodes_back_and_leads_to_its_records(name: str, golden_store: Unpack) -> None:
    for root in roots(golden_store(name)):
        keys = {}
        for message in records(root):
            for word in [*message.keys, *([message.uniq_key] if message.uniq_key else [])]:
                keys.setdefault(index_key_hash(message.topic, word), set()).add(
                    message.physical_offset
                )
        for path in root.glob("index/*"):
            data = path.read_bytes()
            header = decode_header(data)
            assert encode_header(header) == data[:40]
            if header.index_count == 1:
                continue
            slots = probe_slot_count(data)
            assert slots == 40
            for entry in scan_entries(data, slots):
                at = entry_position(entry.number, slots)
                assert encode_entry(entry) == data[at : at + 20]
                assert entry.physical_offset in keys[entry.key_hash]
                assert entry in list(walk_chain(data, entry.key_hash, slots))


def test_every_checkpoint_equals_that_of_java(
    name: str, golden_store: Unpack, golden_expect: Callable[[str], dict]
) -> None:
    folder = golden_store(name)
    expected = golden_expect(name)["store"]
    for root in roots(folder):
        of_root = expected if "checkpoint" in expected else expected[root.name]
        data = (root / "checkpoint").read_bytes()
        value = decode_checkpoint(data)
        assert list(value) == of_root["checkpoint"]
        assert encode_checkpoint(value) == data
        assert len(data) == CHECKPOINT_SIZE
        assert (root / "abort").exists() == of_root["abort"]


def test_every_config_file_encodes_back_to_the_same_bytes(name: str, golden_store: Unpack) -> None:
    pairs = {
        config.TOPICS: (config.decode_topics, config.encode_topics),
        config.SUBSCRIPTION_GROUP: (
            config.decode_subscription_group,
            config.encode_subscription_group,
        ),
        config.CONSUMER_OFFSET: (config.decode_consumer_offset, config.encode_consumer_offset),
        config.LMQ_CONSUMER_OFFSET: (config.decode_consumer_offset, config.encode_consumer_offset),
        config.DELAY_OFFSET: (config.decode_delay_offset, config.encode_delay_offset),
    }
    for root in roots(golden_store(name)):
        for path in (root / "config").iterdir():
            file = path.name.removesuffix(".bak")
            data = path.read_bytes()
            if file == "timercheck":
                assert encode_timer_checkpoint(decode_timer_checkpoint(data)) == data
            elif file in pairs:
                decode, encode = pairs[file]
                assert encode(decode(data)).encode() == data, path
            else:
                value = config.decode_config(file, data)
                assert config.encode_config(value).encode() == data, path


def test_the_mini_store_is_whole(vectors: dict) -> None:
    store = vectors["mini_store"]
    found: list[dict] = []
    for file in store["files"]:
        if not file["path"].startswith("commitlog/"):
            continue
        data = bytes.fromhex(file["hex_without_trailing_zeros"]).ljust(file["length"], b"\0")
        for item in scan_commitlog(data, int(file["path"].rpartition("/")[2])):
            if isinstance(item, LogRecord):
                found.append(
                    {
                        "queue_offset": item.queue_offset,
                        "physical_offset": item.physical_offset,
                        "size": item.total_size,
                        "tags": item.message.tags,
                    }
                )
            elif isinstance(item, Blank):
                found.append({"blank_at": item.physical_offset, "left": item.length})
    assert found == store["log"]
