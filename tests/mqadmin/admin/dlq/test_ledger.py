"""The ledger: every whole line counts, a torn last one does not."""

from pathlib import Path

import pytest

from broker.errors import ConfigError
from mqadmin.admin.dlq.ledger import REFUSED, SENDING, SENT, Entry, Ledger


def entry(number: int, state: str) -> Entry:
    return Entry(id=f"{number:032X}", state=state, at=1000 + number, topic="orders")


def test_the_last_line_of_a_message_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    assert Ledger(path).read().entries == {}
    with Ledger(path) as ledger:
        for number, states in enumerate(([SENDING], [SENDING, SENT], [SENDING, REFUSED])):
            for state in states:
                ledger.write(entry(number, state))
    found = Ledger(path).read().entries
    assert [found[f"{number:032X}"].state for number in range(3)] == [SENDING, SENT, REFUSED]
    assert found[f"{1:032X}"] == entry(1, SENT)


def test_cut_anywhere_the_complete_lines_count_and_writing_continues(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(str(path)) as ledger:
        for number in range(3):
            ledger.write(entry(number, SENT))
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        # A line that lacks only its end was written whole.
        count = sum(end - 1 <= cut for end in ends) if cut else 0
        assert len(Ledger(str(path)).read().entries) == count
        with Ledger(str(path)) as ledger:
            ledger.write(entry(9, SENT))
        after = Ledger(str(path)).read().entries
        assert set(after) >= {f"{9:032X}"}
        assert len(after) == count + 1


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text('{"id":1}\nmore\n')
    with pytest.raises(ConfigError, match=r"ledger, line 1: no line of a ledger"):
        Ledger(str(path)).read()


def test_one_replay_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    with Ledger(path), pytest.raises(ConfigError, match="another command"):
        Ledger(path).__enter__()
    with Ledger(path):
        pass
