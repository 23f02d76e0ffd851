"""The command line as tests see it: words in, status and streams out.

click is imported here and nowhere else: the runner is its only business.
"""

import importlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from mqadmin.command.framework.declare import Noun, Verb
from mqadmin.message_row import MessageRow

with warnings.catch_warnings():
    # typer 0.25 names two functions that click 8.5 calls deprecated; both are pinned
    warnings.simplefilter("ignore", DeprecationWarning)
    import typer  # noqa: F401

SCREENS = Path(__file__).parent / "command" / "screens"


class Result(NamedTuple):
    """The result of a command line."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the variables and the context file of the user that runs the tests."""
    for name in list(os.environ):
        if name.startswith(("MQADMIN_", "_MQADMIN")) or name in (
            "NAMESRV_ADDR",
            "NO_COLOR",
            "ROCKETMQ_HOME",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session", autouse=True)
def groups_built_once() -> Iterator[None]:
    """Keep the click group of each noun: building it takes longer than most command lines.

    The program builds one per process; tests run hundreds of command lines in theirs.
    """
    from mqadmin.command.framework import typer_app

    build = typer_app.noun_group
    built: dict[tuple[int, ...], tuple[Noun, list[Verb], Any]] = {}

    def noun_group(noun: Noun) -> Any:
        verbs = list(noun.verbs.values())
        key = (id(noun), *map(id, verbs))
        if key not in built:
            built[key] = (noun, verbs, build(noun))  # both stay: an id is not given to another one
        return built[key][2]

    with patch.object(typer_app, "noun_group", noun_group):
        yield


@pytest.fixture
def mqadmin() -> Callable[..., Result]:
    """Run a command line the way the console script does; ``face=True`` skips the quick parser."""

    def run(*words: str, stdin: str | bytes = "", face: bool = False) -> Result:
        from mqadmin import app

        with CliRunner().isolation(input=stdin) as (out, err, _):
            status = app.run_typer(list(words)) if face else app.main(list(words))
            os.sys.stdout.flush()  # type: ignore[attr-defined]
            os.sys.stderr.flush()  # type: ignore[attr-defined]
            return Result(status, out.getvalue().decode(), err.getvalue().decode())

    return run


class FakeAdmin:
    """A session of the online library whose answers a test lays out beforehand.

    ``fake.answers["topic.list"] = value`` answers ``admin.topic.list(...)``; an exception is
    raised, a callable is called. ``fake.calls`` holds (name, args, kwargs) in order.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.settings: Any = None
        self.closed = False
        self.responded: set[str] = set()

    def __getattr__(self, noun: str) -> Any:
        if noun.startswith("_"):
            raise AttributeError(noun)
        return _FakeNoun(self, noun)

    def apply(self, plan: Any) -> Any:
        return self.answer("apply", (plan,), {})

    def answer(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.calls.append((name, args, kwargs))
        value = self.answers[name]
        if isinstance(value, BaseException):
            raise value
        return value(*args, **kwargs) if callable(value) else value

    def brokers_responded(self) -> set[str]:
        return self.responded

    def scope(self, addresses: Iterable[str]) -> Any:
        """As a session with one name server: every broker is of the same cluster."""
        from mqadmin.admin.result import Scope

        brokers = {address: f"name-of-{address}" for address in sorted(set(addresses))}
        return Scope(namesrv=("ns:9876",), clusters=["DefaultCluster"], brokers=brokers)

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> "FakeAdmin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# class of a library → its noun
LIBRARIES = {
    "topic.TopicAdmin": "topic",
    "group.GroupAdmin": "group",
    "message.library.MessageAdmin": "message",
    "message.query.MessageQueries": "message",
    "consumer.ConsumerAdmin": "consumer",
    "offset.library.OffsetAdmin": "offset",
    "dlq.library.DlqAdmin": "dlq",
    "transaction.library.TransactionAdmin": "transaction",
    "delayed.levels.DelayAdmin": "delay",
    "delayed.timers.TimerAdmin": "timer",
    "pop.modes.ModeAdmin": "mode",
    "tracing.track.MessageTracker": "tracker",
    "clients.consume_stats.ConsumeStatsAdmin": "consume_stats",
    "clients.producers.ProducerAdmin": "producer",
    "clients.running.RunningAdmin": "running",
    "clients.directly.DirectAdmin": "direct",
    "dlq.resend.ResendAdmin": "resend",
    "access.users.UserAdmin": "user",
    "access.acls.AclAdmin": "acl",
    "cluster.ClusterAdmin": "cluster",
    "broker.BrokerAdmin": "broker",
}


class _FakeNoun:
    def __init__(self, fake: FakeAdmin, noun: str) -> None:
        self.fake = fake
        self.noun = noun

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        name = "apply" if verb == "apply" else f"{self.noun}.{verb}"
        return lambda *args, **kwargs: self.fake.answer(name, args, kwargs)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """Put a fake in the place of the online library."""
    fake = FakeAdmin()
    # a subclass of a replaced library must exist before its base is replaced
    importlib.import_module("mqadmin.admin.plans.topics")

    def connect(settings: Any, trace: Any) -> FakeAdmin:
        fake.settings = settings
        return fake

    monkeypatch.setattr("mqadmin.command.execution.session.connect", connect)
    monkeypatch.setattr("mqadmin.command.framework.live_names.connect", connect)
    for library, noun in LIBRARIES.items():
        monkeypatch.setattr(
            f"mqadmin.admin.{library}", lambda session, noun=noun: getattr(session, noun)
        )
    return fake


@pytest.fixture
def message_row() -> MessageRow:
    """A message of topic orders as a query returns it."""
    return MessageRow(
        topic="orders",
        broker_name="broker-a",
        queue_id=0,
        queue_offset=7,
        physical_offset=1000,
        store_size=200,
        magic="DAA320A7",
        body_crc=0,
        crc_ok=True,
        flag=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        born_host="10.0.0.9:4000",
        store_timestamp=1_700_000_000_001,
        store_host="10.0.0.1:10911",
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_size=5,
        body="hello",
        body_encoding="utf-8",
        tags="A",
        keys=["k1"],
        uniq_key="0A000009000018B4AAC2799D5BAB0000",
        offset_msg_id="0A0000010000291F00000000000003E8",
        properties={"KEYS": "k1", "TAGS": "A"},
    )


@pytest.fixture
def screen() -> Callable[[str, str], None]:
    """Compare text with ``command/screens/NAME``; ``SCREENS=write`` rewrites it."""
    write = os.environ.get("SCREENS") == "write"

    def compare(name: str, text: str) -> None:
        path = SCREENS / name
        if write:
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no screen {path}; SCREENS=write makes it"
        assert text == path.read_text(encoding="utf-8")

    return compare
