"""A whole broker loses power, or its process: everything it acknowledged is stored and visible.

The real controller runs over a simulated disk, threads, event loop and clock, under every kind of
traffic: plain, batch, WAIT=false, delayed, sent back, multi-dispatch, offset commits, new topics,
new groups. After each cut the progress files (consumerOffset.json, delayOffset.json, checkpoint,
queueEnds.json, topics.json, subscriptionGroup.json, abort) are compared with the recovered log,
and a broker is started on the files that remain. Long form: ``scripts/torture broker``.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable

import pytest

from broker.message.record import decode_record
from broker.server.ingest.loader import is_forced
from broker.store.message_store import GetMessageStatus
from tests.support.recording import Recording
from tests.support.simulated_broker import DELAY_LEVELS_MS, SimBroker
from tests.support.simulated_disk import SimDisk
from tests.support.traffic import LIGHT_QUEUES, Handled, Plan, Traffic
from tests.support.transactional import COMMIT

RUNS = int(os.environ.get("TORTURE_RUNS", "1"))
STEPS = int(os.environ.get("TORTURE_STEPS", "40"))
CUTS = int(os.environ.get("TORTURE_CUTS", "60"))  # of each journal; 0: at each point
BURST = 16  # sends at once
LINES = 0.1  # share of the broker's lines before which another thread may run

# Of one run: about 0.1 s per step of a script that is repeated, five times as much under load.
pytestmark = [pytest.mark.crash, pytest.mark.timeout(120 + (CUTS or 1_000) * STEPS // 2)]

both_flushes = pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
each_run = pytest.mark.parametrize("run", range(RUNS))


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line about a long run."""
    began = time.monotonic()

    def line(text: str) -> None:
        if RUNS > 1:
            with capsys.disabled():
                print(f"\n{text}, {time.monotonic() - began:.0f} s")

    return line


def record(rng: random.Random, flush: str, *, lives: int = 1, steps: int = STEPS) -> Recording:
    def script(traffic: Traffic) -> None:
        traffic.steps(steps // lives)
        while is_forced() and not (
            traffic.ingested_batches and traffic.broker.context.ingest.frames
        ):
            traffic.step()

    recording = Recording(rng, flush)
    for _ in range(lives):
        recording.live(script)
    assert bool(recording.ingested) == is_forced(), "the path of MQ_INGEST took the sends"
    return recording


@both_flushes
@each_run
def test_everything_acknowledged_survives_a_power_cut(
    rng: random.Random, flush: str, run: int, show: Callable[[str], None]
) -> None:
    recording = record(rng, flush, lives=rng.choice((1, 1, 2, 3)))
    cuts = 0
    for image in recording.images(CUTS):
        image.check(again=cuts % 4 == 0)
        cuts += 1
    traffic = recording.traffic
    show(f"{flush}: {cuts} cuts, {len(traffic.stored)} stored, {dict(traffic.kinds)}")


@both_flushes
@each_run
def test_everything_acknowledged_survives_threads_that_change_at_any_line(
    rng: random.Random, flush: str, run: int
) -> None:
    """The event loop appends while other threads flush: each line of either may come between."""

    def script(traffic: Traffic) -> None:
        for _ in range(STEPS // 2):
            traffic.step()
            traffic.burst(BURST)  # in one read: their records are gathered

    recording = Recording(rng, flush, preempt_lines=LINES)
    recording.live(script)
    recording.preempt_lines = 0.0  # the brokers started on the images are slow enough
    for killed in (False, True):
        for number, image in enumerate(recording.images(max(3, CUTS // 4), killed=killed)):
            image.check(again=number % 4 == 0)


@both_flushes
@each_run
def test_everything_acknowledged_survives_a_kill(rng: random.Random, flush: str, run: int) -> None:
    recording = record(rng, flush)
    for number, image in enumerate(recording.images(CUTS, killed=True)):
        image.check(again=number % 4 == 0)


@both_flushes
@each_run
def test_everything_acknowledged_survives_a_power_cut_after_a_power_cut(
    rng: random.Random, flush: str, run: int
) -> None:
    recording = record(rng, flush)
    for image in recording.images(max(3, CUTS // 8)):
        following = image.next_life()
        following.live(lambda traffic: traffic.steps(6))
        for later in following.images(8):
            later.event = f"{image.event}, then {later.event}"
            later.check()


# ---- a broker without requests while the clock advances

NO_WAIT = {
    "plain": Plan(topic="T0", queue_id=0, numbers=range(1), wait=False),
    "batch": Plan(topic="T0", queue_id=0, numbers=range(3), wait=False),
    "delayed": Plan(topic="T0", queue_id=0, numbers=range(1), wait=False, level=2),
    "multi-dispatch": Plan(
        topic="T0", queue_id=0, numbers=range(1), wait=False, lights=LIGHT_QUEUES
    ),
    "delayed multi-dispatch": Plan(
        topic="T0", queue_id=0, numbers=range(1), wait=False, level=1, lights=LIGHT_QUEUES
    ),
}


def flush_interval_ms(flush: str) -> int:
    """SYNC_FLUSH: the group-commit interval with room to spare; ASYNC_FLUSH: the thorough flush."""
    return 100 if flush == "SYNC_FLUSH" else 10_600


def check_visible(broker: SimBroker, topic: str, numbers: range) -> None:
    store = broker.store
    for queue_offset, number in enumerate(numbers):
        found = store.get_message(topic, 0, queue_offset, 1)
        assert found.status is GetMessageStatus.FOUND, f"{topic} {queue_offset}: {found.status}"
        assert int(decode_record(found.buffers[0]).body[:6]) == number
    behind = store.max_physical_offset - store.flushed_where
    assert not behind, f"{behind} bytes are not flushed"


@both_flushes
@pytest.mark.parametrize("kind", NO_WAIT)
def test_a_message_without_a_waiter_becomes_durable_and_visible(
    rng: random.Random, flush: str, kind: str
) -> None:
    plan = NO_WAIT[kind]
    traffic = Traffic(rng)
    with SimBroker(SimDisk(), rng, {"flushDiskType": flush}) as broker:
        traffic.attach(broker)
        assert broker.run(traffic.send(plan))
        broker.pass_ms(flush_interval_ms(flush))
        if plan.level:
            broker.pass_ms(DELAY_LEVELS_MS[plan.level])
            broker.pass_ms(flush_interval_ms(flush))
        for topic in (plan.topic, *plan.lights):
            check_visible(broker, topic, plan.numbers)


@both_flushes
def test_a_message_sent_back_gets_durable_and_visible_by_itself(
    rng: random.Random, flush: str
) -> None:
    traffic = Traffic(rng)
    with SimBroker(SimDisk(), rng, {"flushDiskType": flush}) as broker:
        traffic.attach(broker)
        broker.run(send_and_send_back(traffic))
        broker.pass_ms(flush_interval_ms(flush))
        broker.pass_ms(DELAY_LEVELS_MS[1])
        broker.pass_ms(flush_interval_ms(flush))
        check_visible(broker, "%RETRY%G0", range(1))


async def send_and_send_back(traffic: Traffic) -> None:
    """One message stored, flushed, and sent back with level 1 by a consumer that commits it."""
    assert await traffic.send(Plan(topic="T0", queue_id=0, numbers=range(1), wait=True))
    await asyncio.sleep(11)
    handled = Handled(group="G0", topic="T0", queue_id=0, queue_offset=0, number=0, times=0)
    await traffic.pull(("G0", "T0", 0))
    assert await traffic.send_back(handled, traffic.stored[0].physical_offset, 1)
    await traffic.commit(("G0", "T0", 0), 1)


# ---- progress never runs ahead of data, whatever is cut in between


@both_flushes
def test_the_checkpoint_is_written_after_the_log(rng: random.Random, flush: str) -> None:
    """The queues of a quiet broker are flushed at once, its log up to ten seconds later."""
    plans = [Plan(topic="T0", queue_id=0, numbers=range(n, n + 1), wait=True) for n in range(2)]

    def script(traffic: Traffic) -> None:
        for plan in plans:
            assert traffic.broker.run(traffic.send(plan))
            traffic.broker.pass_ms(70_000)

    recording = Recording(rng, flush)
    recording.live(script)
    check_everywhere(recording)


def check_everywhere(recording: Recording) -> None:
    """At each point of a short journal, with only synced bytes kept."""
    for image in recording.images():
        image.check()


@both_flushes
def test_delay_progress_is_written_after_delivered_messages(rng: random.Random, flush: str) -> None:
    plan = Plan(topic="T0", queue_id=0, numbers=range(1), wait=True, level=1)

    def script(traffic: Traffic) -> None:
        assert traffic.broker.run(traffic.send(plan))
        traffic.broker.pass_ms(30_000)

    recording = Recording(rng, flush)
    recording.live(script)
    check_everywhere(recording)


@both_flushes
def test_consumer_progress_is_written_after_sent_back_messages(
    rng: random.Random, flush: str
) -> None:
    def script(traffic: Traffic) -> None:
        traffic.broker.run(send_and_send_back(traffic))
        traffic.broker.pass_ms(30_000)

    recording = Recording(rng, flush)
    recording.live(script)
    check_everywhere(recording)


@both_flushes
def test_an_op_record_is_written_after_its_committed_message_is_flushed(
    rng: random.Random, flush: str
) -> None:
    """A cut may keep the op record and lose the message before it: the half would be lost."""

    def script(traffic: Traffic) -> None:
        broker, transactions = traffic.broker, traffic.transactions
        number = broker.run(transactions.begin(wait=True, body=bytes(1_500)))
        broker.pass_ms(11_000)
        transactions.decisions[number] = COMMIT
        traffic.mark("decided", (number, COMMIT))
        broker.run(transactions.end_transaction(number, COMMIT))
        broker.pass_ms(1_500)

    recording = Recording(rng, flush)
    recording.live(script)
    for image in recording.last_images(power_cuts=6):
        image.check()
