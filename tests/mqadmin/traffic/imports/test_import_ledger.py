from pathlib import Path

import pytest

from broker.client import Message, MessageQueue, SendResult, SendStatus
from broker.common.clock import ManualClock
from broker.errors import ConfigError
from mqadmin.admin.dlq.ledger import SENDING, SENT, Entry
from mqadmin.traffic.imports.import_ledger import ImportJournal, ImportLedger, id_of, position_of
from mqadmin.traffic.outgoing import BadInput, InputMessage, Outgoing
from mqadmin.traffic.sender import Outcome

PLACE = SendResult(
    send_status=SendStatus.SEND_OK,
    msg_id="u",
    offset_msg_id="new",
    message_queue=MessageQueue("orders", "broker-a", 0),
    queue_offset=5,
)


def message(line: int, part: int = 0) -> InputMessage:
    found = InputMessage(
        line=line, raw=b"", body=b"x", topic="orders", properties={"UNIQ_KEY": f"u{line}.{part}"}
    )
    found.part = part
    return found


def outgoing(line: int, part: int = 0) -> Outgoing:
    return Outgoing(line, b"", Message("orders", b"x"), None, None, part, f"u{line}.{part}")


def no_lookup(entry: Entry, uniq_key: str, original_id: str | None) -> Entry | None:
    raise AssertionError("nothing is in doubt")


def journal(ledger: ImportLedger, lookup: object = no_lookup, **options: bool) -> ImportJournal:
    return ImportJournal(ledger, ManualClock(), lookup, **options)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def test_a_rerun_skips_sent_messages_and_no_others(path: str) -> None:
    with ImportLedger(path) as ledger:
        first = journal(ledger)
        for line in (10, 20, 30, 40):
            assert not first.skips(message(line))
            first.opened(outgoing(line))
        first.closed(Outcome(outgoing(10), result=PLACE))
        first.closed(Outcome(outgoing(20)))  # not tried
        first.closed(Outcome(outgoing(40), result=PLACE))
        assert first.open_count == 1
    with ImportLedger(path) as ledger:
        assert (ledger.first_needed, ledger.sent_count) == (20, 2)
        assert set(ledger.entries) == {"20", "30"}
        again = journal(ledger, lambda *_: None)
        skipped = {line: again.skips(message(line)) for line in (10, 20, 30, 40, 50)}
        assert skipped == {10: True, 20: False, 30: False, 40: True, 50: False}
        assert again.already == 2


def test_a_message_in_doubt_is_skipped_when_a_broker_has_it(path: str) -> None:
    asked = []

    def lookup(entry: Entry, uniq_key: str, original_id: str | None) -> Entry | None:
        asked.append((entry.id, entry.state, uniq_key))
        return Entry(id=entry.id, state=SENT, at=1, topic="orders")

    with ImportLedger(path) as ledger:
        journal(ledger).opened(outgoing(10))
    with ImportLedger(path) as ledger:
        again = journal(ledger, lookup)
        assert again.skips(message(10))
        assert (again.found, asked) == (1, [("10", SENDING, "u10.0")])
    with ImportLedger(path) as ledger:
        assert journal(ledger).skips(message(10))


def test_each_message_of_a_record_has_its_own_entry(path: str) -> None:
    with ImportLedger(path) as ledger:
        first = journal(ledger)
        for part in range(3):
            first.opened(outgoing(10, part))
        first.closed(Outcome(outgoing(10, 1), result=PLACE))
    with ImportLedger(path) as ledger:
        assert set(ledger.entries) == {"10", "10.2"}
        assert ledger.first_needed == 10


def test_a_message_that_cannot_be_sent_is_tried_again(path: str) -> None:
    with ImportLedger(path) as ledger:
        journal(ledger).refused(BadInput(line=10, raw=b"", reason="bad"))
    with ImportLedger(path) as ledger:
        assert ledger.first_needed == 10
        assert not journal(ledger).skips(message(10))


def test_a_replaced_source_is_noticed(path: str) -> None:
    with ImportLedger(path) as ledger:
        first = journal(ledger)
        first.opened(outgoing(10))
        first.closed(Outcome(outgoing(10), result=PLACE))
    other = message(10)
    other.properties = {"UNIQ_KEY": "another"}
    with ImportLedger(path) as ledger, pytest.raises(ConfigError, match="another message") as found:
        journal(ledger).skips(other)
    assert "replaced" in found.value.hint


def test_a_ledger_belongs_to_one_scope(path: str) -> None:
    with ImportLedger(path) as ledger:
        journal(ledger).begin("source a, to T")
    with ImportLedger(path) as ledger:
        ledger.check_scope("source a, to T")
        with pytest.raises(ConfigError, match="another import"):
            ledger.check_scope("source a, to U")


def test_a_dry_run_writes_nothing(path: str) -> None:
    ledger = ImportLedger(path).read()
    dry = journal(ledger, dry_run=True)
    dry.begin("scope")
    dry.refused(message(1))
    assert not Path(path).exists()


@pytest.mark.parametrize("position", [(0, 0), (5, 0), (5, 3), (1 << 40, 0)])
def test_ids_are_positions(position: tuple[int, int]) -> None:
    entry = Entry(id=id_of(*position), state=SENT, at=0, topic="")
    assert position_of(entry) == position


def test_the_ledger_of_a_replay_is_refused(path: str) -> None:
    Path(path).write_text('{"id":"0A00","state":"sent","at":1,"topic":"orders"}\n')
    with pytest.raises(ConfigError, match="not that of an import"):
        ImportLedger(path).read()
