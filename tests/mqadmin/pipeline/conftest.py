"""One Spark session for all tests of the pipeline, and logs to read.

Starting the virtual machine takes seconds, so every test that needs Spark shares it. Without the
extra ``spark`` the whole folder is left out, and ``scripts/test`` says so.
"""

import base64
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.store.format.commitlog import encode_blank, file_name, fits
from mqadmin.inspector.directory import Query, StoreDirectory

HAS_SPARK = importlib.util.find_spec("pyspark") is not None
NOW = 1_700_000_000_000
STORES = sorted(
    path.name.removesuffix(".tar.xz")
    for path in (Path(__file__).parents[2] / "golden" / "stores").glob("*.tar.xz")
)

# Nothing else here can be imported without Spark.
collect_ignore = [
    str(path)
    for path in Path(__file__).parent.rglob("test_*.py")
    if not HAS_SPARK and path.name != "test_extra.py"
]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Everything here is of the pipeline; what starts a virtual machine is marked."""
    if Path(__file__).parent in item.path.parents and (
        {"spark", "spark_program", "cluster"} & set(getattr(item, "fixturenames", ()))
    ):
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session, on two cores."""
    if not HAS_SPARK:
        pytest.skip("the extra spark is not installed")
    from mqadmin.pipeline.session import SparkSettings, spark_session

    # Many small queries: what a better compiler would win, it costs several times.
    quick = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
    with spark_session(SparkSettings(master="local[2]", heap="1g", flags=quick)) as session:
        yield session


class Log:
    """A CommitLog under ``root``: messages appended by :meth:`put`, written at once."""

    def __init__(self, root: Path, file_size: int = 4096, start: int = 0) -> None:
        self.root = root
        self.file_size = file_size
        self.end = start
        self.count = 0
        self.offsets: dict[tuple[str, int], int] = {}
        (root / "commitlog").mkdir(parents=True, exist_ok=True)

    def put(self, topic: str = "TopicA", queue_id: int = 0, **given: Any) -> int:
        """Append a message; its physical offset."""
        queue_offset = self.offsets.get((topic, queue_id), 0)
        number = self.count
        fields = {
            "queue_id": queue_id,
            "queue_offset": queue_offset,
            "store_timestamp": NOW + number * 1000,
            "born_timestamp": NOW + number * 1000 - 5,
            "born_host_raw": bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31)),
            "store_host_raw": bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
            **given,
        }
        properties = {
            "KEYS": f"key{number}",
            "TAGS": "TagA",
            "UNIQ_KEY": f"{number:032X}",
            **fields.pop("properties", {}),
        }
        body = fields.pop("body", b"body %d" % number + b"." * (40 + number % 90))
        properties = {name: value for name, value in properties.items() if value is not None}
        message = MessageExt(topic, body, encode_properties(properties), **fields)
        size = len(encode_record(message))
        left = self.file_size - self.end % self.file_size
        if not fits(size, left):
            self.write(self.end, encode_blank(left))
            self.end += left
        message.physical_offset = self.end
        self.write(self.end, encode_record(message))
        self.end += size
        self.count += 1
        self.offsets[topic, queue_id] = queue_offset + 1
        return message.physical_offset

    def write(self, physical_offset: int, data: bytes) -> None:
        """Write bytes of the log as they are."""
        at = physical_offset % self.file_size
        path = self.file(physical_offset)
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(self.file_size)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def file(self, physical_offset: int) -> Path:
        """The file that holds a physical offset."""
        start = physical_offset - physical_offset % self.file_size
        return self.root / "commitlog" / file_name(start)


@pytest.fixture
def make_log(tmp_path: Path) -> Callable[..., Log]:
    """``make_log(file_size=…)``: an empty log to put messages into."""

    def make(name: str = "store", **settings: int) -> Log:
        return Log(tmp_path / name, **settings)

    return make


def as_time(ms: int) -> datetime:
    """Epoch ms as Spark and Arrow hand times out."""
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)


def plain_row(row: Any, store: str) -> dict[str, Any]:
    """A message of the plain decoder under the names of the source's columns."""
    properties = row.properties
    return {
        "topic": row.topic,
        "queue_id": row.queue_id,
        "queue_offset": row.queue_offset,
        "physical_offset": row.physical_offset,
        "size": row.store_size,
        "sys_flag": row.sys_flag,
        "flag": row.flag,
        "born_time": as_time(row.born_timestamp),
        "born_host": row.born_host,
        "store_time": as_time(row.store_timestamp),
        "store_host": row.store_host,
        "reconsume_times": row.reconsume_times,
        "prepared_offset": row.prepared_transaction_offset,
        "body_crc": row.body_crc,
        "body_len": row.body_size,
        "body": base64.b64decode(row.body or ""),
        "crc_ok": row.crc_ok,
        "tags": row.tags,
        "keys": properties.get("KEYS"),
        "uniq_key": row.uniq_key,
        "offset_msg_id": row.offset_msg_id,
        "store": store,
    }


@pytest.fixture(scope="session")
def plain_rows() -> Callable[..., list[dict[str, Any]]]:
    """``plain_rows(path)``: what the plain decoder, record by record, makes of a store."""

    def rows(path: Path) -> list[dict[str, Any]]:
        directory = StoreDirectory(path)
        store = str(directory.root or directory.path)
        return [
            plain_row(row, store)
            for row in directory.messages(Query(body="base64"))
            if not hasattr(row, "suggestion")  # a damage
        ]

    return rows


@pytest.fixture(scope="session")
def compared() -> Callable[[Iterable[Any]], list[tuple[Any, ...]]]:
    """Rows (dicts, Spark rows, Arrow batches) as sorted tuples that can be compared.

    Times lose their zone, ``properties`` is left out: its text is stored, not decoded.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None)
        return bytes(value) if isinstance(value, bytearray) else value

    def listed(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
        found = []
        for row in rows:
            many = row.to_pylist() if hasattr(row, "to_pylist") else [row]
            for one in many:
                fields = one.asDict() if hasattr(one, "asDict") else dict(one)
                fields.pop("properties", None)
                items = sorted((name, plain(value)) for name, value in fields.items())
                found.append(tuple(items))
        return sorted(found, key=repr)

    return listed


@pytest.fixture(scope="session")
def store_roots(golden_store: Callable[..., Path]) -> dict[str, Path]:
    """Every recorded store by name; the slaves of pairs as ``NAME/slave``."""
    roots = {}
    for name in STORES:
        folder = golden_store(name)
        for part in ("store", "master", "slave"):
            if (folder / part).is_dir():
                roots[name if part != "slave" else f"{name}/slave"] = folder / part
    return roots


class LiveStore:
    """A store with the engine that writes it; ``put`` gives the physical offsets."""

    def __init__(self, root: Path, file_size: int) -> None:
        from broker.store.config import MessageStoreConfig
        from broker.store.message_store import MessageStore

        self.root = root
        self.count = 0
        self.store = MessageStore(
            MessageStoreConfig(
                store_path_root_dir=str(root),
                mapped_file_size_commit_log=file_size,
                mapped_file_size_consume_queue=2000,
                max_hash_slot_num=100,
                max_index_num=400,
                max_message_size=min(file_size // 2, 1 << 20),
                disk_max_used_space_ratio=95,
            )
        )
        self.store.load()
        self.store.start()

    def put(self, count: int = 1, size: int = 100, topic: str = "Live") -> list[int]:
        """Store messages of that size, bodies numbered."""
        from broker.store.message_store import MessageInner

        places = []
        for _ in range(count):
            body = b"%010d" % self.count
            result = self.store.put_message(
                MessageInner(
                    topic,
                    self.count % 4,
                    body.ljust(size, b"."),
                    encode_properties({"KEYS": f"k{self.count}", "UNIQ_KEY": f"{self.count:032X}"}),
                    born_timestamp=NOW,
                    born_host=bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31)),
                    store_host=bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
                )
            )
            assert result.status.name == "PUT_OK", result.remark
            places.append(result.physical_offset)
            self.count += 1
        return places


@pytest.fixture
def live_store() -> Iterator[Callable[..., LiveStore]]:
    """``live_store(folder, file_size=…)``: a store that the engine of the broker writes."""
    made: list[LiveStore] = []

    def make(root: Path, file_size: int = 1 << 16) -> LiveStore:
        made.append(LiveStore(root, file_size))
        return made[-1]

    yield make
    for live in made:
        live.store.shutdown()


@pytest.fixture
def shared_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs of jobs use the tests' session instead of starting one of their own."""
    from contextlib import contextmanager

    @contextmanager
    def session(_: Any) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr("mqadmin.pipeline.run.spark_session", session)
    return spark


@pytest.fixture
def run_job(shared_session: Any) -> Callable[..., Any]:
    """``run_job("traffic", root, table="skew", by="topic")``: the result of a job's run."""
    from mqadmin.pipeline.run import Request, run

    names = {field for field in Request.__struct_fields__ if field not in ("job", "parameters")}

    def call(job: str, *stores: Path, **given: Any) -> Any:
        fields = {name: value for name, value in given.items() if name in names}
        parameters = {name: str(value) for name, value in given.items() if name not in names}
        paths = [str(store) for store in stores]
        return run(Request(job=job, stores=paths, parameters=parameters, **fields))

    return call
