"""The timer engine on a manual clock: accuracy, roll, recall, limits, restarts, bad records."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from broker.common.topic import TIMER_TOPIC
from broker.message.properties import encode_properties
from broker.store.format.timer import CHECKPOINT_FILE_SIZE, decode_timer_checkpoint
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus
from broker.store.timer import timer_message_store
from broker.store.timer.timer_message_store import MAX_WAIT_MS, RETRY_PUT_MS
from tests.support.timers import OK, START_MS, Timers

DAY_MS = 86_400_000
S = PutMessageStatus


class TestDelivery:
    @pytest.mark.parametrize("delay_ms", [1, 500, 999, 1_000, 1_001, 1_500, 30_000, 3_599_123])
    def test_message_is_delivered_at_its_time_at_most_one_precision_late(
        self, timers: Timers, delay_ms: int
    ) -> None:
        assert timers.send("a", delay_ms).status is OK
        due_ms = START_MS + delay_ms
        while not timers.delivered():
            wait_ms = timers.run()
            if wait_ms:
                timers.clock.advance(max(1, int(wait_ms)))
        late_ms = timers.clock.now_ms() - due_ms
        assert 0 <= late_ms < 1_000

    @pytest.mark.parametrize(
        ("properties", "late_ms"),
        [
            ({"TIMER_DELAY_SEC": "3"}, 3_000),
            ({"TIMER_DELAY_MS": "1500"}, 2_000),
            ({"TIMER_DELIVER_MS": str(START_MS + 4_200)}, 5_000),
            ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "9000"}, 2_000),
            ({"TIMER_DELAY_MS": "2000", "TIMER_DELIVER_MS": str(START_MS + 9_000)}, 2_000),
        ],
    )
    def test_properties_have_javas_precedence(
        self, timers: Timers, properties: dict[str, str], late_ms: int
    ) -> None:
        timers.send("a", **properties)
        timers.wait(late_ms - 1)
        assert not timers.delivered()
        timers.wait(1)
        assert timers.delivered() == {"a": 1}

    def test_delivered_copy_is_the_message_with_the_times_added(self, timers: Timers) -> None:
        sent = {"UNIQ_KEY": "a", "TAGS": "t", "KEYS": "k", "TIMER_DELAY_MS": "1500"}
        timers.put(dict(sent), b"text", queue_id=3, flag=7, reconsume_times=2)
        timers.wait(2_000)
        (copy,) = timers.messages(queue_id=3)
        assert (copy.body, copy.flag, copy.reconsume_times) == (b"text", 7, 2)
        assert copy.born_timestamp == START_MS
        assert copy.store_timestamp == START_MS + 2_000
        assert copy.properties == {
            **sent,
            "TIMER_OUT_MS": str(START_MS + 1_000),
            "REAL_TOPIC": "Orders",
            "REAL_QID": "3",
            "TIMER_ENQUEUE_MS": str(START_MS),
            "TIMER_DEQUEUE_MS": str(START_MS + 2_000),
        }

    def test_messages_of_a_slot_keep_their_order(self, timers: Timers) -> None:
        names = [f"m{number}" for number in range(300)]
        for name in names:
            timers.send(name, 1_500)
        timers.wait(2_000)
        assert [message.properties["UNIQ_KEY"] for message in timers.messages()] == names

    def test_a_call_is_bounded(self, timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(10):
            timers.send(f"m{number}", 1_500)
        timers.run()
        timers.clock.advance(2_000)
        assert timers.timers.run(4) == 0
        assert len(timers.messages()) == 4

    def test_nothing_pending_wants_no_call(self, timers: Timers) -> None:
        assert timers.run() is None
        timers.send("a", 60_000)
        assert timers.run() == MAX_WAIT_MS
        timers.wait(61_000)
        assert timers.run() is None

    def test_three_days_of_timers(self, make_timers: Callable[..., Timers]) -> None:
        timers = make_timers(timer_roll_window_slot=1_000, file_reserved_time=1_000)
        rng = random.Random(1)
        due = {}
        for number in range(200):
            delay_ms = rng.randrange(1, 3 * DAY_MS)
            due[f"m{number}"] = START_MS + delay_ms
            assert timers.send(f"m{number}", delay_ms).status is OK
        timers.wait(3 * DAY_MS + 1_000)
        delivered = {m.properties["UNIQ_KEY"]: m.store_timestamp for m in timers.messages()}
        assert delivered.keys() == due.keys()
        assert all(0 <= delivered[name] - due[name] < 1_000 for name in due)
        assert timers.timers.metrics.topics["Orders"].count == 0
        assert timers.timers.wheel.pending == 0

    def test_failed_put_is_repeated(self, timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
        timers.send("a", 1_500)
        timers.run()
        timers.clock.advance(2_000)
        refused = PutMessageResult(S.SERVICE_NOT_AVAILABLE)
        with monkeypatch.context() as patch:
            patch.setattr(timers.store, "put_message", lambda inner: refused)
            assert timers.timers.run() == RETRY_PUT_MS
        timers.run()
        assert timers.delivered() == {"a": 1}


class TestRoll:
    def test_distant_message_goes_through_the_wheel_in_rounds(
        self, make_timers: Callable[..., Timers]
    ) -> None:
        timers = make_timers(timer_roll_window_slot=100)
        timers.send("a", 350_000)
        timers.wait(350_000)
        (copy,) = timers.messages()
        assert copy.store_timestamp == START_MS + 350_000
        assert copy.properties["TIMER_ROLL_TIMES"] == "3"
        assert len(timers.messages(TIMER_TOPIC)) == 4

    def test_recall_finds_its_message_after_both_were_rolled(
        self, make_timers: Callable[..., Timers]
    ) -> None:
        timers = make_timers(timer_roll_window_slot=100)
        timers.send("a", 350_000)
        timers.wait(120_000)
        assert timers.recall("a", START_MS + 350_000).status is OK
        timers.wait(240_000)
        assert not timers.delivered()
        assert timers.timers.recalled == 1
        assert timers.timers.metrics.topics["Orders"].count == 0

    @pytest.mark.parametrize("sent_ms", [0, 1, 499, 850, 999])
    @pytest.mark.parametrize(
        "properties", [{"TIMER_DELAY_SEC": "350"}, {"TIMER_DELAY_MS": "350900"}]
    )
    def test_a_rolled_delay_keeps_its_slot(
        self, make_timers: Callable[..., Timers], sent_ms: int, properties: dict[str, str]
    ) -> None:
        """Never early, and a recall for the same time finds it, at each point of a slot."""
        timers = make_timers(timer_roll_window_slot=100)
        timers.clock.advance(sent_ms)
        delay_ms = 350_900 if "TIMER_DELAY_MS" in properties else 350_000
        due_ms = timers.clock.now_ms() + delay_ms
        timers.send("kept", **properties)
        timers.send("recalled", **properties)
        timers.wait(20_000)
        assert timers.recall("recalled", due_ms).status is OK
        timers.wait(delay_ms)
        (copy,) = timers.messages()
        assert copy.properties["UNIQ_KEY"] == "kept"
        assert 0 <= copy.store_timestamp - due_ms < 1_000


class TestLimits:
    def test_past_time_is_delivered_at_once(self, timers: Timers) -> None:
        for number, value in enumerate(("0", "1", "-5", str(START_MS), "-9223372036854775808")):
            assert timers.send(f"m{number}", TIMER_DELIVER_MS=value).status is OK
        assert len(timers.messages()) == 5
        assert timers.messages(TIMER_TOPIC) == []

    def test_delay_above_the_maximum_is_refused(self, timers: Timers) -> None:
        assert timers.send("a", 3 * DAY_MS).status is OK
        result = timers.send("a", 3 * DAY_MS + 1)
        assert result.status is S.WHEEL_TIMER_MSG_ILLEGAL
        assert "timerMaxDelaySec" in result.remark

    @pytest.mark.parametrize("value", ["soon", "1.5", "0x10", "9223372036854775808", "1_0"])
    def test_time_that_is_not_a_number_is_refused(self, timers: Timers, value: str) -> None:
        for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
            assert timers.send("a", **{name: value}).status is S.WHEEL_TIMER_MSG_ILLEGAL

    def test_sum_wraps_as_in_java(self, timers: Timers) -> None:
        assert timers.send("a", TIMER_DELAY_MS="9223372036854775807").status is OK
        assert timers.delivered() == {"a": 1}

    def test_full_slot_refuses_at_random_then_always(
        self, make_timers: Callable[..., Timers]
    ) -> None:
        timers = make_timers(timer_congest_num_each_slot=10)
        statuses: Counter[PutMessageStatus] = Counter()
        for number in range(200):
            statuses[timers.send(f"m{number}", 5_500).status] += 1
            timers.run()
        assert statuses.keys() == {OK, S.WHEEL_TIMER_FLOW_CONTROL}
        assert 11 <= statuses[OK] <= 20
        assert timers.send("other", 9_500).status is OK

    def test_prepared_messages_are_left_alone(self, timers: Timers) -> None:
        inner = MessageExtBrokerInner("Orders", 0, b"", sys_flag=4)
        assert timers.timers.intercept(inner, {"TIMER_DELAY_SEC": "5"}) is None
        assert inner.topic == "Orders"

    def test_illegal_place_is_refused_before_the_wheel(self, timers: Timers) -> None:
        result = timers.put({"TIMER_DELAY_SEC": "5"}, topic="x" * 200)
        assert result.status is S.MESSAGE_ILLEGAL

    def test_stopped_enqueue_and_dequeue_continue_later(
        self, make_timers: Callable[..., Timers]
    ) -> None:
        timers = make_timers(timer_stop_enqueue=True)
        timers.send("a", 1_500)
        timers.wait(5_000)
        assert timers.timers.offset_behind == 1
        timers.close()
        timers.config = msgspec.structs.replace(timers.config, timer_stop_enqueue=False)
        timers.open()
        timers.wait(0)
        assert timers.delivered() == {"a": 1}


class TestRecall:
    def test_recalled_message_is_not_delivered(self, timers: Timers) -> None:
        timers.send("a", 5_500)
        timers.send("b", 5_500)
        timers.wait(1_000)
        assert timers.recall("a", START_MS + 5_500).status is OK
        timers.wait(10_000)
        assert timers.delivered() == {"b": 1}
        assert timers.timers.recalled == 1

    def test_recall_of_another_topic_does_nothing(self, timers: Timers) -> None:
        timers.send("a", 5_500)
        timers.recall("a", START_MS + 5_500, topic="Other")
        timers.wait(10_000)
        assert timers.delivered() == {"a": 1}
        assert timers.delivered("Other") == {}

    def test_recall_in_the_past_is_illegal(self, timers: Timers) -> None:
        timers.clock.advance(10_000)
        assert timers.recall("a", START_MS + 5_500).status is S.WHEEL_TIMER_MSG_ILLEGAL

    def test_recall_that_was_accepted_counts_even_if_the_broker_was_down(
        self, timers: Timers
    ) -> None:
        timers.send("a", 5_500)
        timers.recall("a", START_MS + 5_500)
        timers.close()
        timers.clock.advance(60_000)
        timers.open()
        timers.wait(0)
        assert timers.delivered() == {}

    @pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
    def test_recall_of_a_rolled_message_counts_even_if_the_broker_was_down(
        self, make_timers: Callable[..., Timers], flush: str
    ) -> None:
        """The message still has to be rolled, when its recall is already in its last slot."""
        timers = make_timers(timer_roll_window_slot=30, flush_disk_type=flush)
        timers.send("a", 46_000)
        timers.send("b", 46_000)
        timers.wait(1_000)
        assert timers.recall("a", START_MS + 46_000).status is OK
        timers.close()
        timers.clock.advance(60_000)
        timers.open()
        timers.wait(5_000)
        assert timers.delivered() == {"b": 1}
        assert timers.timers.recalled == 1

    @pytest.mark.parametrize("delayed_ms", [0, 30_000])
    def test_a_due_slot_waits_until_a_recall_is_flushed(
        self, make_timers: Callable[..., Timers], delayed_ms: int
    ) -> None:
        timers = make_timers(flush_disk_type="SYNC_FLUSH")
        timers.send("a", 5_500)
        timers.send("b", 5_500)
        timers.wait(1_000)
        assert timers.recall("a", START_MS + 5_500).status is OK
        timers.clock.advance(5_000 + delayed_ms)
        timers.store.dispatch()
        assert timers.timers.run() == RETRY_PUT_MS
        assert timers.timers.dequeued == 0
        timers.wait(100)
        assert timers.delivered() == {"b": 1}

    def test_messages_sent_after_the_end_of_a_slot_do_not_delay_it(
        self, make_timers: Callable[..., Timers]
    ) -> None:
        timers = make_timers(flush_disk_type="SYNC_FLUSH")
        timers.send("a", 1_500)
        timers.wait(1_000)
        timers.clock.advance(2_000)
        timers.send("late", 60_000)
        assert timers.timers.run() == RETRY_PUT_MS
        timers.store.flush()
        timers.store.dispatch()
        for number in range(5):
            timers.send(f"later{number}", 60_000)
            timers.timers.run()
        assert timers.timers.dequeued == 1

    def test_pending_count_includes_the_recall(self, timers: Timers) -> None:
        timers.send("a", 5_500)
        timers.send("b", 5_500)
        timers.recall("a", START_MS + 5_500)
        timers.run()
        assert timers.timers.metrics.topics["Orders"].count == 1
        timers.wait(10_000)
        assert timers.timers.metrics.topics["Orders"].count == 0


class TestRestart:
    def test_pending_messages_survive_a_stop(self, timers: Timers) -> None:
        for number in range(50):
            timers.send(f"m{number}", 1_000 * number + 500)
        timers.wait(20_000)
        before = sum(timers.delivered().values())
        timers.close()
        timers.open()
        assert timers.notes == []
        assert timers.timers.wheel.pending == 50 - before
        timers.wait(40_000)
        assert timers.delivered() == {f"m{number}": 1 for number in range(50)}

    def test_a_started_slot_is_continued(self, timers: Timers) -> None:
        for number in range(10):
            timers.send(f"m{number}", 1_500)
        timers.recall("m9", START_MS + 1_500)
        timers.run()
        timers.clock.advance(2_000)
        timers.timers.run(4)
        timers.close()
        timers.open()
        timers.wait(0)
        assert timers.delivered() == {f"m{number}": 1 for number in range(9)}
        assert timers.timers.metrics.topics["Orders"].count == 0

    @pytest.mark.parametrize("ending", ["close", "kill"])
    def test_messages_that_join_a_started_slot_survive_its_end(
        self, make_timers: Callable[..., Timers], ending: str
    ) -> None:
        timers = make_timers()
        for number in range(3):
            timers.send(f"m{number}", 1_500)
        timers.run()
        stopped = msgspec.structs.replace(timers.config, timer_stop_enqueue=True)
        timers.store.set_config(stopped)
        for number in range(3, 6):
            timers.send(f"m{number}", 1_500)
        timers.clock.advance(2_000)
        assert timers.timers.run(1) == 0
        assert timers.timers.enqueued == 3
        timers.store.set_config(timers.config)
        for _ in range(3):
            timers.timers.run(1)
        assert (timers.timers.enqueued, timers.timers.dequeued) == (6, 2)
        if ending == "kill":
            timers.persist()
        getattr(timers, ending)()
        timers.open()
        timers.wait(0)
        assert timers.delivered() == {f"m{number}": 1 for number in range(6)}
        assert timers.timers.metrics.topics["Orders"].count == 0

    @pytest.mark.parametrize("persisted", [False, True])
    @pytest.mark.parametrize("most", [1, 4, 9])
    def test_kill_in_the_middle_of_a_slot_repeats_nothing(
        self, timers: Timers, persisted: bool, most: int
    ) -> None:
        for number in range(9):
            timers.send(f"m{number}", 1_500)
        timers.run()
        timers.persist()
        timers.clock.advance(2_000)
        timers.timers.run(most)
        timers.store.dispatch()
        if persisted:
            timers.persist()
        timers.kill()
        timers.open()
        timers.wait(0)
        assert timers.delivered() == {f"m{number}": 1 for number in range(9)}
        assert timers.timers.metrics.topics["Orders"].count == 0

    def test_kill_after_a_roll_repeats_nothing(self, make_timers: Callable[..., Timers]) -> None:
        timers = make_timers(timer_roll_window_slot=100)
        timers.send("a", 350_000)
        timers.run()
        timers.persist()
        timers.wait(101_000)
        timers.kill()
        timers.open()
        timers.wait(260_000)
        assert timers.delivered() == {"a": 1}

    @pytest.mark.parametrize("lost", [["timerwheel"], ["timerlog"], ["config/timercheck"]])
    def test_lost_files_are_rebuilt_from_the_timer_queue(
        self, make_timers: Callable[..., Timers], lost: list[str]
    ) -> None:
        timers = make_timers(timer_roll_window_slot=100)
        for number in range(60):
            timers.send(f"m{number}", 5_000 * number + 500)
        timers.recall("m59", START_MS + 5_000 * 59 + 500)
        timers.wait(130_000)
        timers.close()
        for name in lost:
            path = Path(timers.config.root) / name
            for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                file.unlink()
        timers.open()
        assert "rebuilt" in timers.notes[0]
        timers.wait(200_000)
        assert timers.delivered() == {f"m{number}": 1 for number in range(59)}

    def test_two_messages_with_one_unique_key_are_both_delivered(self, timers: Timers) -> None:
        """A producer that repeats a send after a timeout stores its message twice."""
        timers.send("a", 1_500)
        timers.send("a", 1_500)
        timers.run()
        timers.persist()
        timers.clock.advance(2_000)
        timers.timers.run(1)
        timers.kill()
        timers.open()
        timers.wait(0)
        assert timers.delivered() == {"a": 2}

    def test_changed_precision_moves_the_pending_messages(
        self, make_timers: Callable[..., Timers]
    ) -> None:
        timers = make_timers()
        timers.send("a", 30_500)
        timers.run()
        timers.close()
        timers.config = msgspec.structs.replace(timers.config, timer_precision_ms=100)
        timers.open()
        timers.wait(30_500)
        assert timers.delivered() == {"a": 1}

    def test_checkpoint_is_javas(self, timers: Timers) -> None:
        timers.send("a", 5_500)
        timers.run()
        timers.persist()
        data = (Path(timers.config.root) / "config" / "timercheck").read_bytes()
        assert len(data) == CHECKPOINT_FILE_SIZE
        checkpoint = decode_timer_checkpoint(data)
        assert checkpoint.last_read_time == START_MS
        assert checkpoint.last_timer_log_flush_position == 52
        assert checkpoint.last_timer_queue_offset == checkpoint.master_timer_queue_offset == 1

    def test_state_is_not_written_without_a_change(self, timers: Timers) -> None:
        assert timers.timers.snapshot() is None
        timers.send("a", 5_500)
        timers.run()
        timers.persist()
        assert timers.timers.snapshot() is None

    def test_failed_sync_keeps_the_last_checkpoint(
        self, timers: Timers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        timers.send("a", 5_500)
        timers.run()
        timers.persist()
        timers.send("b", 5_500)
        timers.run()

        def fail(*_: object) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(timers.timers.timer_log, "sync", fail)
            with pytest.raises(OSError, match="Input/output"):
                timers.persist()
        assert timers.timers.snapshot() is None
        timers.kill()
        timers.open()
        timers.wait(10_000)
        assert timers.delivered() == {"a": 1, "b": 1}


class TestClock:
    def test_step_forward_delivers_messages_due_by_the_new_time(self, timers: Timers) -> None:
        timers.send("a", 600_000)
        timers.send("b", 7_200_000)
        timers.run()
        timers.clock.jump(3_600_000)
        timers.run()
        assert timers.delivered() == {"a": 1}

    def test_step_back_strands_nothing_and_delivers_nothing_early(self, timers: Timers) -> None:
        timers.send("a", 5_500)
        timers.wait(10_000)
        timers.clock.jump(-3_600_000)
        sent_ms = timers.clock.now_ms()
        timers.send("b", 5_500)
        timers.wait(5_499)
        assert timers.delivered() == {"a": 1}
        timers.wait(501)
        assert timers.clock.now_ms() - sent_ms == 6_000
        assert timers.delivered() == {"a": 1, "b": 1}

    def test_step_back_repeats_nothing_after_a_kill(self, timers: Timers) -> None:
        for number in range(5):
            timers.send(f"m{number}", 2_500 + 1_000 * number)
        timers.wait(8_000)
        timers.persist()
        timers.clock.jump(-6_000)
        timers.send("late", 2_500)
        timers.run()
        timers.persist()
        timers.kill()
        timers.open()
        timers.wait(20_000)
        assert timers.delivered() == {**{f"m{number}": 1 for number in range(5)}, "late": 1}


YEAR_MS = 365 * DAY_MS


class TestClockThatWasSetBack:
    """A delay counts from now at the latest; a requested time stays."""

    @pytest.mark.parametrize("ending", ["run", "stop", "kill", "enqueue"])
    def test_delay_is_not_lengthened_by_the_step(
        self, make_timers: Callable[..., Timers], ending: str
    ) -> None:
        timers = make_timers(timer_roll_window_slot=200)
        for number in range(5):
            timers.send(f"m{number}", TIMER_DELAY_SEC="60")
        timers.send("far", TIMER_DELAY_SEC="500")
        if ending != "enqueue":
            timers.run()
            timers.persist()
        if ending == "stop":
            timers.close()
        elif ending == "kill":
            timers.kill()
        timers.clock.jump(-YEAR_MS)
        if ending in ("stop", "kill"):
            timers.open()
        timers.wait(59_000)
        assert timers.delivered() == {}
        timers.wait(1_000)
        assert timers.delivered() == {f"m{number}": 1 for number in range(5)}
        timers.wait(600_000)
        assert timers.delivered()["far"] == 1
        assert timers.timers.wheel.pending == 0
        assert timers.timers.metrics.topics["Orders"].count == 0

    def test_requested_time_stays(self, timers: Timers) -> None:
        timers.send("a", 7_200_000)
        timers.run()
        timers.clock.jump(-3_600_000)
        timers.wait(2 * 3_600_000)
        assert timers.delivered() == {}
        timers.wait(3_600_000)
        assert timers.delivered() == {"a": 1}

    def test_recall_stored_before_the_step_holds(self, timers: Timers) -> None:
        timers.send("a", TIMER_DELAY_SEC="60")
        timers.send("b", TIMER_DELAY_SEC="60")
        timers.recall("a", START_MS + 60_000)
        timers.run()
        timers.clock.jump(-YEAR_MS)
        timers.wait(120_000)
        assert timers.delivered() == {"b": 1}

    @pytest.mark.parametrize("runs", [1, 2, 3, 7])
    @pytest.mark.parametrize("ending", ["close", "kill"])
    def test_stop_while_messages_are_placed_again(
        self, timers: Timers, monkeypatch: pytest.MonkeyPatch, runs: int, ending: str
    ) -> None:
        for number in range(6):
            timers.send(f"m{number}", TIMER_DELAY_SEC="60")
            timers.send(f"at{number}", YEAR_MS // 365)
        timers.run()
        timers.persist()
        timers.clock.jump(-7_200_000)
        for _ in range(runs):
            timers.timers.run(2)
        if ending == "kill":
            timers.persist()
        getattr(timers, ending)()
        timers.open()
        timers.wait(61_000)
        assert timers.delivered() == {f"m{number}": 1 for number in range(6)}
        timers.wait(DAY_MS + 7_200_000)
        assert timers.delivered().total() == 12

    def test_small_step_moves_nothing(self, timers: Timers) -> None:
        timers.send("a", TIMER_DELAY_SEC="60")
        timers.run()
        end = timers.timers.timer_log.end
        timers.clock.jump(-1_500)
        timers.run()
        assert timers.timers.timer_log.end == end


class TestBadRecords:
    @pytest.mark.parametrize(
        "properties",
        [
            {},
            {"TIMER_OUT_MS": "soon", "REAL_TOPIC": "Orders", "REAL_QID": "0"},
            {"TIMER_OUT_MS": "5", "REAL_QID": "0"},
            {"TIMER_OUT_MS": "5", "REAL_TOPIC": "Orders"},
            {"TIMER_OUT_MS": "5", "REAL_TOPIC": "Orders", "REAL_QID": "-1"},
            {"TIMER_OUT_MS": "5", "REAL_TOPIC": TIMER_TOPIC, "REAL_QID": "0"},
            {"TIMER_OUT_MS": "5", "REAL_TOPIC": "SCHEDULE_TOPIC_XXXX", "REAL_QID": "0"},
        ],
    )
    def test_record_that_cannot_be_delivered_stops_no_other(
        self, timers: Timers, properties: dict[str, str]
    ) -> None:
        inner = MessageExtBrokerInner(TIMER_TOPIC, 0, b"bad", encode_properties(properties))
        assert timers.store.put_message(inner).status is OK
        timers.send("a", 1_500)
        timers.wait(3_000)
        assert timers.delivered() == {"a": 1}
        assert timers.timers.quarantined == 1

    def test_topic_that_the_store_refuses_is_quarantined(
        self, timers: Timers, caplog: pytest.LogCaptureFixture
    ) -> None:
        properties = {
            "TIMER_OUT_MS": str(START_MS),
            "REAL_TOPIC": "x" * 200,
            "REAL_QID": "0",
            "UNIQ_KEY": "a",
        }
        inner = MessageExtBrokerInner(TIMER_TOPIC, 0, b"bad", encode_properties(properties))
        timers.store.put_message(inner)
        timers.wait(2_000)
        assert timers.timers.quarantined == 1
        assert "store inspect" in caplog.text

    def test_properties_at_the_limit_are_delivered_without_the_times(self, timers: Timers) -> None:
        timers.send("a", 1_500, big="x" * (32_767 - 130))
        timers.wait(2_000)
        (copy,) = timers.messages()
        assert "TIMER_DEQUEUE_MS" not in copy.properties


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_agree_with_a_dict(
    make_timers: Callable[..., Timers], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends, recalls, waits, stops, kills and clock steps: each message is delivered once, in time.

    The model maps a name to its due time; a recalled name leaves it.
    """
    monkeypatch.setattr(timer_message_store, "MAX_PER_TURN", 3)
    rng = random.Random(seed)
    timers = make_timers(timer_roll_window_slot=90, file_reserved_time=1_000)
    clock = timers.clock
    due: dict[str, int] = {}
    expected: dict[str, int] = {}
    for number in range(400):
        action = rng.random()
        if action < 0.55:
            name, delay_ms = f"m{number}", rng.choice((300, 2_500, 40_000, 150_000, 400_000))
            delay_ms += rng.randrange(1_000)
            kind = rng.choice(("TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"))
            if kind == "TIMER_DELAY_SEC":
                delay_ms = -(-delay_ms // 1_000) * 1_000
            due[name] = clock.now_ms() + delay_ms
            expected[name] = due[name]
            requested = {
                "TIMER_DELIVER_MS": due[name],
                "TIMER_DELAY_MS": delay_ms,
                "TIMER_DELAY_SEC": delay_ms // 1_000,
            }
            assert timers.send(name, **{kind: str(requested[kind])}).status is OK
        elif action < 0.7 and due:
            name = rng.choice(sorted(due))
            if due[name] - clock.now_ms() > 1_000 and timers.recall(name, due[name]).status is OK:
                del due[name], expected[name]
        elif action < 0.85:
            timers.wait(rng.randrange(20_000))
            if rng.random() < 0.5:
                timers.persist()
        elif action < 0.9:
            timers.clock.advance(rng.randrange(5_000))
            timers.timers.run(2)
        elif action < 0.95:
            timers.close()
            timers.open()
        else:
            timers.kill()
            timers.open()
        due = {name: time for name, time in due.items() if time > clock.now_ms()}
    timers.wait(500_000)
    assert timers.delivered() == dict.fromkeys(expected, 1), f"seed {seed}"
    assert timers.timers.metrics.topics["Orders"].count == 0
    early = {
        message.properties["UNIQ_KEY"]
        for message in timers.messages()
        if message.store_timestamp < expected[message.properties["UNIQ_KEY"]]
    }
    assert not early, f"seed {seed}"
