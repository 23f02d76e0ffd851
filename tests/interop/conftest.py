"""Real RocketMQ programs for the tests: fetched once, started on free ports, stopped by pid.

Where a JDK, Maven, Go or Node is missing the tests that need it are skipped with the reason;
``MQ_PEERS=required`` turns that into a failure, ``MQ_PEERS=off`` skips them all.
Downloads are stored in ``$MQ_TEST_PEERS_HOME``, else ``~/.cache/mqadmin-test-peers``.
"""

import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.support.ports import free_port

HERE = Path(__file__).parent / "peers"
HOME = Path(os.environ.get("MQ_TEST_PEERS_HOME") or Path.home() / ".cache" / "mqadmin-test-peers")
MODE = os.environ.get("MQ_PEERS", "auto")

# Generous: a JVM on two busy cores may take a minute to start.
PATIENCE_S = 180

JVM = (
    "-Xms64m",
    "-XX:+UseSerialGC",
    "-Djava.net.preferIPv4Stack=true",
    "-Drocketmq.client.logUseSlf4j=true",
)
# Each JVM lives for seconds: a better compiler costs several times the time it saves.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
BROKER_OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)

# A store of default size reserves some gigabytes; dozens are made in a run.
SMALL = {
    "mappedFileSizeCommitLog": 32 * 1024 * 1024,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "waitTimeMillsInSendQueue": 20_000,
}

Event = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.path).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.peer)
            item.add_marker(pytest.mark.timeout(600))


def absent(reason: str) -> NoReturn:
    if MODE == "required":
        pytest.fail(f"a real peer is required here, but {reason}")
    pytest.skip(reason)


def tool(*names: str) -> str:
    if MODE == "off":
        pytest.skip("MQ_PEERS=off")
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    absent(f"{' or '.join(names)} is not installed")


def fetch(part: str, sources: list[Path], build: Callable[[Path], None]) -> Path:
    """The folder of `part`, rebuilt when a source has changed; concurrent runs are serialised."""
    stamp = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = HOME / f"{part}-{stamp}"
    if folder.is_dir():
        return folder
    HOME.mkdir(parents=True, exist_ok=True)
    work = HOME / f".{part}-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        build(work)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(work, ignore_errors=True)
        absent(f"{part} could not be fetched: {(error.stderr or '').strip()[-800:]}")
    try:
        work.rename(folder)
    except OSError:  # another run was faster
        shutil.rmtree(work, ignore_errors=True)
    return folder


def run(*command: str, cwd: Path | None = None, **env: str) -> None:
    subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **env},
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def java_home(version: str) -> Path:
    """Folder with ``lib`` (jars) and ``classes`` (the driver) of one RocketMQ version."""
    tool("java")
    javac, mvn = tool("javac"), tool("mvn")
    java = HERE / "java"

    def build(work: Path) -> None:
        profile = ["-Pservers"] if version.startswith("5.") else []
        shutil.copy(java / "pom.xml", work / "pom.xml")
        run(
            *(mvn, "-B", "-q", "-f", str(work / "pom.xml"), f"-Dpeer.version={version}", *profile),
            "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
            *("-DincludeScope=runtime", f"-DoutputDirectory={work / 'lib'}"),
        )
        run(
            *(
                javac,
                "-nowarn",
                "-Xlint:none",
                "-proc:none",
                "--release",
                "11",
                "-encoding",
                "UTF-8",
            ),
            *("-cp", str(work / "lib" / "*"), "-d", str(work / "classes"), str(java / "Peer.java")),
        )
        for quiet in ("logback.xml", "rmq.logback.xml"):
            shutil.copy(java / quiet, work / "classes" / quiet)

    return fetch(f"java-{version}", [java / "pom.xml", java / "Peer.java"], build)


class Peer:
    """The Java driver: one JVM, commands as JSON lines in, events as JSON lines out."""

    def __init__(self, version: str, folder: Path, work: Path, *options: str) -> None:
        self.version = version
        conf = work / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        # 4.9 mqadmin refuses to start without this file
        (conf / "logback_tools.xml").write_text((HERE / "java" / "logback.xml").read_text())
        self._errors = (work / "stderr").open("wb")
        self.process = subprocess.Popen(
            [
                *("java", "-Xmx512m", *QUICK, *JVM, *options),
                *("-Djava.security.manager=allow", f"-Duser.home={work}"),
                *(f"-Drocketmq.home.dir={work}", f"-Drocketmq.client.logRoot={work / 'logs'}"),
                *("-cp", f"{folder / 'classes'}:{folder / 'lib' / '*'}", "Peer"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=work,
            env={**os.environ, "ROCKETMQ_HOME": str(work)},
            text=True,
            encoding="utf-8",
        )
        self._answers: queue.Queue[Event] = queue.Queue()
        self._consumers: dict[str, queue.Queue[Event]] = {}
        self._lock = threading.Lock()
        self._number = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._answers.get(timeout=PATIENCE_S)["event"] == "ready"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            if "consumer" in event:
                self.consumer(event["consumer"]).put(event)
            else:
                self._answers.put(event)
        self._answers.put({"event": "end", "error": "the JVM is gone"})

    def consumer(self, name: str) -> "queue.Queue[Event]":
        with self._lock:
            return self._consumers.setdefault(name, queue.Queue())

    def ask(self, do: str, **words: Any) -> list[Event]:
        """Run one command; its events, the last one ``end``. Raises when the command failed."""
        events = self.try_ask(do, **words)
        assert events[-1]["error"] is None, events[-1]["error"]
        return events

    def try_ask(self, do: str, **words: Any) -> list[Event]:
        self._number += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": self._number, "do": do, **words}) + "\n")
        self.process.stdin.flush()
        events = []
        while True:
            event = self._answers.get(timeout=PATIENCE_S)
            events.append(event)
            if event["event"] == "end":
                return events

    def produce(self, **words: Any) -> list[Event]:
        return [event for event in self.ask("produce", **words) if event["event"] != "end"]

    def dump(self, **words: Any) -> tuple[dict[int, tuple[int, int]], list[Event]]:
        """Queue bounds by queue id, and every message of the topic."""
        events = self.ask("dump", **words)
        bounds = {
            event["queueId"]: (event["minOffset"], event["maxOffset"])
            for event in events
            if event["event"] == "queue"
        }
        return bounds, [event for event in events if event["event"] == "message"]

    def messages(self, consumer: str, count: int, timeout_s: float = PATIENCE_S) -> list[Event]:
        """The next `count` messages a push consumer got."""
        inbox = self.consumer(consumer)
        deadline = time.monotonic() + timeout_s
        seen: list[Event] = []
        while len(seen) < count:
            try:
                seen.append(inbox.get(timeout=max(0.01, deadline - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"{len(seen)} of {count} messages came in time") from None
        return seen

    def messages_with(self, consumer: str, wanted: set[str]) -> list[Event]:
        """Messages of a push consumer until each wanted uniqKey was among them; some come twice."""
        seen: list[Event] = []
        while not wanted <= {event["uniqKey"] for event in seen}:
            seen += self.messages(consumer, 1)
        return seen

    def mqadmin(self, *args: str) -> str:
        """The output of the real mqadmin on stdout; a stack trace on stderr is a failure."""
        end = self.ask("mqadmin", args=list(args))[-1]
        assert end["status"] == 0, end
        assert "\tat org.apache.rocketmq" not in end["stderr"], end["stderr"]
        return str(end["stdout"])

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self._errors.close()


class Daemon:
    """A server process of either side; ready when its log or stdout holds the ready words."""

    def __init__(self, command: list[str], log: Path, ready: str, **env: str) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                cwd=log.parent,
            )
        deadline = time.monotonic() + PATIENCE_S
        while ready not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"{command[0]} did not become ready:\n{self.text()[-3000:]}")
            time.sleep(0.05)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        """End it in order; anything but a clean exit is a failure."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=PATIENCE_S)
        assert self.process.returncode in (0, 143), self.text()[-3000:]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class JavaServers:
    """Starts the real name server and broker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Daemon] = []

    def _start(self, main: str, conf: Path, log: Path, heap: str, *options: str) -> Daemon:
        home = conf.parent / "home"
        home.mkdir(exist_ok=True)
        daemon = Daemon(
            [
                *("java", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=1g", *QUICK, *JVM, *BROKER_OPENS),
                *(
                    f"-Duser.home={home}",
                    f"-Drocketmq.home.dir={home}",
                    "-Dtls.server.mode=disabled",
                    *options,
                ),
                *("-cp", f"{self.folder / 'classes'}:{self.folder / 'lib' / '*'}", main),
                *("-c", str(conf)),
            ],
            log,
            "boot success",
            ROCKETMQ_HOME=str(home),
        )
        self.running.append(daemon)
        return daemon

    def namesrv(self, work: Path, *options: str) -> str:
        """``options`` of the JVM; of equal ones the last one counts."""
        work.mkdir(parents=True, exist_ok=True)
        port = free_port()
        conf = work / "namesrv.conf"
        conf.write_text(
            f"listenPort={port}\nbindAddress=127.0.0.1\nkvConfigPath={work}/kvConfig.json\n"
            f"configStorePath={work}/namesrv.properties\n"
        )
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self._start(main, conf, work / "namesrv.out", "256m", *options)
        return f"127.0.0.1:{port}"

    def broker(self, work: Path, store: Path, namesrv: str, **settings: Any) -> Daemon:
        """A broker on `store`; ready when the name server knows it."""
        work.mkdir(parents=True, exist_ok=True)
        port = settings.pop("listenPort", None) or free_port()
        pairs = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": 0,
            "listenPort": port,
            "haListenPort": port + 1,
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "namesrvAddr": namesrv,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "waitTimeMillsInSendQueue": 20000,
            "rocksdbCQDoubleWriteEnable": "false",
            **SMALL,
            **settings,
        }
        conf = work / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        daemon = self._start(
            "org.apache.rocketmq.broker.BrokerStartup", conf, work / "broker.out", "1g"
        )
        daemon.address = f"127.0.0.1:{port}"  # type: ignore[attr-defined]
        await_registered(namesrv.split(";")[0], str(pairs["brokerName"]))
        return daemon


def await_registered(namesrv: str, broker_name: str) -> None:
    """Wait until the name server lists the broker: "boot success" comes before the registration."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        client = BlockingClient(timeout_ms=5000)
        try:
            answer = client.call(namesrv, request(RequestCode.GET_BROKER_CLUSTER_INFO))
            if f'"{broker_name}"'.encode() in bytes(answer.body):
                return
        finally:
            client.close()
        time.sleep(0.2)
    raise AssertionError(f"{broker_name} did not register at {namesrv}")


def program(name: str) -> str:
    """A console script of the environment that runs the tests."""
    return str(Path(sys.executable).parent / name)


class OurServers:
    """Starts our own daemons as a user does."""

    def __init__(self) -> None:
        self.running: list[Daemon] = []

    def namesrv(self, work: Path, port: int | None = None, **settings: Any) -> str:
        port = port or free_port()
        work.mkdir(parents=True, exist_ok=True)
        conf = work / "our-namesrv.conf"
        pairs = {
            "kvConfigPath": f"{work}/our-kvConfig.json",
            "configStorePath": f"{work}/our-namesrv.properties",
            **settings,
        }
        conf.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        daemon = Daemon(
            [program("mqnamesrv"), "-c", str(conf), "--listen", f"127.0.0.1:{port}"],
            work / "our-namesrv.out",
            "boot success",
        )
        self.running.append(daemon)
        return f"127.0.0.1:{port}"

    def broker(self, work: Path, store: Path, namesrv: str, **settings: Any) -> Daemon:
        work.mkdir(parents=True, exist_ok=True)
        port = settings.pop("listenPort", None) or free_port()
        conf = work / "our-broker.conf"
        pairs = {
            "brokerName": "broker-a",
            "brokerClusterName": "DefaultCluster",
            "brokerIP1": "127.0.0.1",
            **SMALL,
            **settings,
        }
        conf.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        daemon = Daemon(
            [
                *(program("mqbroker"), "-c", str(conf), "-n", namesrv),
                *("--store", str(store), "--listen", f"127.0.0.1:{port}"),
            ],
            work / "our-broker.out",
            "boot success",
        )
        daemon.address = f"127.0.0.1:{port}"  # type: ignore[attr-defined]
        self.running.append(daemon)
        await_registered(namesrv.split(";")[0], str(pairs["brokerName"]))
        return daemon


def make_topic(broker: str, topic: str, queues: int = 4, perm: int = 6) -> None:
    """A topic at a broker of either side; a Java mqadmin takes a hundred times as long for it."""
    header = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    call(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def call(broker: str, code: int, header: dict[str, str]) -> None:
    """Send a request that must succeed."""
    with BlockingClient(timeout_ms=20_000) as client:
        answer = client.call(broker, request(code, header))
    assert answer.code == 0, answer.remark


def send_to_dlq(broker: str, group: str, topic: str, sent: dict[str, Any]) -> None:
    """Send a message back, as a consumer of the group does at its last attempt.

    A consumer may do so twice: it gets messages at least once.
    """
    header = {
        "offset": str(int(sent["offsetMsgId"][16:], 16)),
        "group": group,
        "delayLevel": "-1",
        "originMsgId": sent["msgId"],
        "originTopic": topic,
        "unitMode": "false",
        "maxReconsumeTimes": "0",
    }
    call(broker, RequestCode.CONSUMER_SEND_MSG_BACK, header)


def committed(broker: str, topic: str, group: str, queue_id: int) -> str | None:
    header = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "setZeroIfNotFound": "false",
    }
    with BlockingClient(timeout_ms=20_000) as client:
        answer = client.call(broker, request(RequestCode.QUERY_CONSUMER_OFFSET, header))
    return answer.ext_fields.get("offset")


def until(condition: Callable[[], Any], awaited: str, timeout_s: float = PATIENCE_S) -> Any:
    """Wait for the first true result of ``condition`` and return it; ``awaited`` names it."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not reached in {timeout_s} s: {awaited}"
        time.sleep(0.01)
    return answer


def close_all(daemons: list[Daemon]) -> None:
    for daemon in reversed(daemons):
        daemon.kill()


@pytest.fixture(scope="session", name="make_topic")
def make_topic_fixture() -> Callable[..., None]:
    """``make_topic(broker address, topic, queues=4)``."""
    return make_topic


@pytest.fixture(scope="session", name="until")
def until_fixture() -> Callable[..., Any]:
    """``until(lambda: condition, "name of the event")``: wait for an event."""
    return until


@pytest.fixture(scope="session", name="send_to_dlq")
def send_to_dlq_fixture() -> Callable[..., None]:
    """``send_to_dlq(broker address, group, topic, sent event)``."""
    return send_to_dlq


@pytest.fixture(scope="session", name="committed")
def committed_fixture() -> Callable[..., str | None]:
    """committed(broker, topic, group, queue_id): the offset at the broker; None: no offset."""
    return committed


@pytest.fixture(scope="session")
def java_533() -> Path:
    return java_home("5.3.3")


@pytest.fixture(scope="session")
def java_498() -> Path:
    return java_home("4.9.8")


@pytest.fixture(scope="session")
def peer_533(java_533: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = Peer("5.3.3", java_533, tmp_path_factory.mktemp("peer-533"))
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def peer_498(java_498: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = Peer("4.9.8", java_498, tmp_path_factory.mktemp("peer-498"))
    yield peer
    peer.close()


@pytest.fixture(params=["5.3.3", "4.9.8"])
def tls_peer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """Each Java client version with TLS."""
    name = request.param.replace(".", "")
    folder = request.getfixturevalue(f"java_{name}")
    work = tmp_path_factory.mktemp(f"tls-peer-{name}")
    peer = Peer(request.param, folder, work, "-Dtls.enable=true")
    yield peer
    peer.close()


@pytest.fixture(params=["5.3.3", "4.9.8"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each Java client version in turn."""
    found: Peer = request.getfixturevalue(f"peer_{request.param.replace('.', '')}")
    return found


@pytest.fixture
def java_servers(java_533: Path) -> Iterator[JavaServers]:
    servers = JavaServers(java_533)
    yield servers
    close_all(servers.running)


@pytest.fixture
def our_servers() -> Iterator[OurServers]:
    if MODE == "off":
        pytest.skip("MQ_PEERS=off")
    servers = OurServers()
    yield servers
    close_all(servers.running)


@pytest.fixture(scope="module")
def our_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Our name server and broker for a whole module: (name server address, broker address)."""
    if MODE == "off":
        pytest.skip("MQ_PEERS=off")
    work = tmp_path_factory.mktemp("our-cluster")
    servers = OurServers()
    namesrv = servers.namesrv(work)
    broker = servers.broker(work, work / "store", namesrv)
    yield namesrv, broker.address  # type: ignore[attr-defined]
    close_all(servers.running)


@pytest.fixture(scope="module")
def java_cluster(
    java_533: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The real name server and broker for a whole module: (name server address, broker address)."""
    work = tmp_path_factory.mktemp("java-cluster")
    servers = JavaServers(java_533)
    namesrv = servers.namesrv(work)
    broker = servers.broker(work, work / "store", namesrv)
    yield namesrv, broker.address  # type: ignore[attr-defined]
    close_all(servers.running)


@pytest.fixture(scope="module")
def brokers_of_both_kinds(
    java_533: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., list[tuple[str, str, Path]]]]:
    """``brokers_of_both_kinds(**settings)``: Java's and ours, as (name server, broker, store)."""
    started: list[JavaServers | OurServers] = []

    def start(**settings: Any) -> list[tuple[str, str, Path]]:
        sides = []
        for servers in (JavaServers(java_533), OurServers()):
            started.append(servers)
            work = tmp_path_factory.mktemp(type(servers).__name__)
            namesrv = servers.namesrv(work)
            broker = servers.broker(work, work / "store", namesrv, **settings)
            sides.append((namesrv, broker.address, work / "store"))  # type: ignore[attr-defined]
        return sides

    yield start
    for servers in started:
        close_all(servers.running)


def one_shot(*command: str, home: Path, request: Event) -> list[Event]:
    done = subprocess.run(
        [*command, json.dumps(request)],
        env={**os.environ, "HOME": str(home)},  # members of broadcasting groups keep offsets there
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, (events, done.stderr[-2000:])
    return events


@pytest.fixture(scope="session")
def go_binary() -> Path:
    """The Go client behind one command."""
    go = tool("go")
    source = HERE / "go"

    def build(work: Path) -> None:
        run(
            *(go, "build", "-mod=readonly", "-trimpath", "-o", str(work / "peer"), "."),
            cwd=source,
            CGO_ENABLED="0",
        )

    return fetch("go", sorted(source.iterdir()), build) / "peer"


@pytest.fixture(scope="session")
def go_peer(
    go_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[Event]]:
    """Run one command of the Go client."""
    home = tmp_path_factory.mktemp("go-home")
    return lambda **request: one_shot(str(go_binary), home=home, request=request)


@pytest.fixture
def go_member(go_binary: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a Go consumer that runs until it is killed; the test reads its events."""
    running: list[subprocess.Popen[str]] = []

    def start(**request: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(go_binary), json.dumps({"do": "consume", "count": 1 << 30, **request})],
            env={**os.environ, "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def node_peer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Event]]:
    """Run one command of the JavaScript client."""
    node, npm = tool("node"), tool("npm")
    source = HERE / "node"

    def build(work: Path) -> None:
        for name in ("package.json", "package-lock.json", "peer.js"):
            shutil.copy(source / name, work / name)
        run(npm, "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", cwd=work)

    folder = fetch("node", sorted(source.iterdir()), build)
    home = tmp_path_factory.mktemp("node-home")
    return lambda **request: one_shot(node, str(folder / "peer.js"), home=home, request=request)
