"""A broker and a name server under hostile bytes: alive, prompt, bounded, and sound afterwards.

While :class:`Attack` sends, a well-behaved client must be served without a long wait and resident
memory must stay bounded; afterwards memory is released, the daemon stops in order, its store
verifies clean and holds every message that was acknowledged. The long form is
``scripts/torture fuzz SECONDS``; ``--seed`` sends the same samples again.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from broker.remoting.limits import UNSENT_PAUSE_BYTES
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.fuzz.attack import CONNECTIONS, Attack
from tests.fuzz.well_behaved import Gap, KvClient, MessageClient, WellBehavedClient
from tests.support.broker_process import BrokerProcess, NameServerProcess

# Set by scripts/torture. The run of the test suite sends the same samples each time.
EXPLORES = "FUZZ_SECONDS" in os.environ
SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
BROKER_SHARE = 0.7  # of the time; the rest is for the name server
EPISODE_SECONDS = 300.0  # a longer run is several of these, each with a new store
EPISODES = max(1, round(SECONDS / EPISODE_SECONDS))

# Generous for a machine that is busy with other tests; a wait counts only when the daemon computed
# for half of it.
GAP_LIMIT_S = float(os.environ.get("FUZZ_GAP_SECONDS", "2"))
# Above the baseline, at any moment: every connection may be one that does not read, with unsent
# responses up to the pause and one more of that length. Usual are 25 to 35 MiB.
MEMORY_LIMIT_BYTES = CONNECTIONS * 2 * UNSENT_PAUSE_BYTES + (64 << 20)
# Above the baseline, when the attack is over: topics, groups and offsets that accepted requests
# created, and free blocks of the allocator; 107 to 126 MiB after 75,000 to 104,000 samples.
MEMORY_KEPT_BYTES = 160 << 20
MEMORY_SETTLE_S = 20.0
SAMPLE_S = 0.2

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240 + 4 * SECONDS)]


@pytest.fixture
def rng(rng: random.Random) -> random.Random:
    """The generator of the samples."""
    return rng if EXPLORES else random.Random("hostile bytes")


class Watch:
    """Looks at the daemon's memory and life every now and then."""

    def __init__(self, daemon: BrokerProcess, client: WellBehavedClient) -> None:
        self._daemon = daemon
        self._client = client
        self._looked = 0.0
        self.baseline = daemon.rss_bytes()
        self.peak = self.baseline

    def healthy(self) -> bool:
        """Whether a further round fits the time."""
        now = time.monotonic()
        if now - self._looked >= SAMPLE_S:
            self._looked = now
            if not self._daemon.is_running or is_too_long(self._client.gap):
                return False
            self.peak = max(self.peak, self._daemon.rss_bytes())
        return self._client.is_served and self.peak - self.baseline <= MEMORY_LIMIT_BYTES

    def await_memory(self) -> int:
        """Bytes above the baseline that are still allocated after the attack."""
        deadline = time.monotonic() + MEMORY_SETTLE_S
        while (kept := self._daemon.rss_bytes() - self.baseline) > MEMORY_KEPT_BYTES:
            if time.monotonic() > deadline:
                break
            time.sleep(SAMPLE_S)
        return kept


def is_too_long(gap: Gap) -> bool:
    """Whether the daemon held up a client; a machine that is busy with others did not."""
    return gap.seconds > GAP_LIMIT_S and gap.computed_seconds > GAP_LIMIT_S / 2


def mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"


def loop_lag(daemon: BrokerProcess) -> str:
    """The loop lag reported by the daemon, if any."""
    answer = daemon.call(request(RequestCode.GET_BROKER_RUNTIME_INFO))
    table = msgspec.json.decode(answer.body_bytes()).get("table", {}) if answer.code == 0 else {}
    return str(table.get("loopLagMillis", "-"))


def attack_daemon(
    daemon: BrokerProcess,
    address: str,
    client: WellBehavedClient,
    rng: random.Random,
    seconds: float,
    folder: Path,
) -> str:
    """Attack for the given time, check client and process; return the figures."""
    watch = Watch(daemon, client)
    attack = Attack(address, rng)
    client.start()
    try:
        attack.run(seconds, watch.healthy)
    finally:
        attack.close()
        client.stop()
    gap, sent = client.longest, attack.sent
    grown = mebibytes(watch.peak - watch.baseline)
    figures = (
        f"{sent.total()} samples {dict(sent)}, {client.answers} answers to the well-behaved client,"
        f" longest wait {gap.seconds * 1000:.0f} ms (request {gap.code}, the daemon computed for"
        f" {gap.computed_seconds * 1000:.0f} ms of it), memory +{grown}"
    )
    since = gap.began - 1.0 if client.is_served else time.monotonic() - 3.0
    assert daemon.is_running, f"the daemon has ended: {attack.save(folder, since)}"
    assert client.is_served, f"{client.failure!r}; {figures}; {attack.save(folder, since)}"
    assert not is_too_long(gap), f"{figures}; {attack.save(folder, since)}"
    assert watch.peak - watch.baseline <= MEMORY_LIMIT_BYTES, (
        f"{figures}; {attack.save(folder, time.monotonic() - 5)}"
    )
    kept = watch.await_memory()
    assert kept <= MEMORY_KEPT_BYTES, f"{mebibytes(kept)} are kept; {figures}"
    return f"{figures}, {mebibytes(kept)} kept"


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line about a long run."""

    def line(text: str) -> None:
        if EPISODES > 1:
            with capsys.disabled():
                print(f"\n{text}")

    return line


def findings(store: Path) -> list[dict[str, object]]:
    """The errors that ``mqadmin store verify`` finds.

    An offset past the end of its queue is a warning: a client may commit any offset, as in Java.
    """
    command = [sys.executable, "-m", "mqadmin", "store", "verify", str(store), "-o", "json"]
    verified = subprocess.run(command, capture_output=True, text=True)
    assert verified.returncode in (0, 7), verified.stderr[-3000:]
    items = msgspec.json.decode(verified.stdout)["items"]
    return [item for item in items if item["severity"] == "error"]


@pytest.mark.parametrize("path", ["plain", "fast"])
@pytest.mark.parametrize("episode", range(EPISODES))
def test_a_broker_under_hostile_bytes_serves_others_and_keeps_acknowledged_messages(
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    episode: int,
    path: str,
    show: Callable[[str], None],
) -> None:
    if path == "fast":
        pytest.importorskip("numba", reason="vectorized ingest needs the extra 'fast'")
    # Loaded from the start or never: the baseline of the memory includes the code.
    monkeypatch.setenv("MQ_INGEST", path)
    flush = rng.choice(("SYNC_FLUSH", "ASYNC_FLUSH"))
    settings = {
        "flushDiskType": flush,
        "enablePropertyFilter": "true",
        "enableMultiDispatch": rng.choice(("true", "false")),
        "mappedFileSizeCommitLog": str(64 << 20),
        # More than the keys of one message: 32 KiB of properties hold 16,000.
        "maxIndexNum": "40000",
    }
    seconds = SECONDS / EPISODES * BROKER_SHARE / 2  # for each path
    with BrokerProcess(tmp_path, settings, standalone=False) as broker:
        client = MessageClient(broker.address, broker.pid)
        client.ask()
        client.store_long()
        folder = tmp_path / "samples"
        figures = attack_daemon(broker, broker.address, client, rng, seconds, folder)
        show(f"broker, {path}, {flush}: {figures}, its own loop lag {loop_lag(broker)} ms")
        assert broker.stop() == 0
        assert findings(broker.store) == []
        broker.start()
        client.check_all(broker.address)
        assert broker.stop() == 0
    assert "Traceback" not in broker.log_text, broker.log_text[-3000:]


@pytest.mark.parametrize("episode", range(EPISODES))
def test_a_name_server_under_hostile_bytes_serves_others(
    tmp_path: Path, rng: random.Random, episode: int, show: Callable[[str], None]
) -> None:
    seconds = SECONDS / EPISODES * (1 - BROKER_SHARE)
    with NameServerProcess(tmp_path) as server:
        client = KvClient(server.address, server.pid)
        client.ask()
        folder = tmp_path / "samples"
        figures = attack_daemon(server, server.address, client, rng, seconds, folder)
        show(f"name server: {figures}")
        assert server.stop() == 0
    assert "Traceback" not in server.log_text, server.log_text[-3000:]
