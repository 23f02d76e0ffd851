import pytest

from mqadmin.output import table
from mqadmin.output.table import draw_one, draw_rows

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(table, "stdout_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    return monkeypatch


def test_long_cells_fold_on_a_terminal_and_nothing_is_lost(
    terminal: pytest.MonkeyPatch, capsys: Capture
) -> None:
    draw_rows([{"name": "a", "text": "x" * 60}], ("name", "text"), color=False)
    out = capsys.readouterr().out
    assert out.count("x") == 60
    assert max(map(len, out.splitlines())) <= 40


def test_too_many_columns_run_on_instead_of_breaking_into_crumbs(
    terminal: pytest.MonkeyPatch, capsys: Capture
) -> None:
    row = {f"column{n}": f"value {n}" for n in range(8)}
    draw_rows([row], (), color=False)
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == [f"COLUMN{n}" for n in range(8)]
    assert "value 7" in line


def test_markup_in_data_is_text_on_a_terminal(
    terminal: pytest.MonkeyPatch, capsys: Capture
) -> None:
    draw_rows([{"text": "[bold]x[/bold] :smile:"}], ("text",), color=False)
    assert "[bold]x[/bold] :smile:" in capsys.readouterr().out


def test_wide_characters_take_two_places(capsys: Capture) -> None:
    draw_rows([{"a": "订单", "b": "x"}, {"a": "abcd", "b": "y"}], ("a", "b"))
    assert capsys.readouterr().out == "A     B\n订单  x\nabcd  y\n"


def test_a_field_may_have_words_of_its_own(capsys: Capture) -> None:
    words = {"perm": lambda value: {6: "RW-"}[value]}
    draw_rows([{"perm": 6}, {"perm": None}], ("perm",), texts=words)
    assert capsys.readouterr().out == "PERM\nRW-\n-\n"
    draw_one({"perm": 6, "rows": [{"perm": 6}]}, (), texts=words)
    assert capsys.readouterr().out == "perm  RW-\n\nROWS\nPERM\nRW-\n"


def test_a_quantity_has_its_unit_and_the_heading_does_not(capsys: Capture) -> None:
    rows = [{"ageMs": 90_000, "lag": 3, "lagSeconds": None, "bytes": 2048}]
    draw_rows(rows, ("ageMs", "lag", "lagSeconds", "bytes"))
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["AGE", "LAG", "LAG-TIME", "BYTES"]
    assert line.split() == ["90s", "3", "-", "2.0", "KiB"]
    draw_one({"bytes": 2048, "topics": [{"bytes": 512}], "latency": {"p50Ms": 0.1234}}, ())
    assert capsys.readouterr().out.split() == [
        *("bytes", "2.0", "KiB", "TOPICS", "BYTES", "512", "B", "LATENCY", "p50Ms", "0.123"),
    ]


ID = "7F00000100002A9F0000000000000000"


@pytest.mark.parametrize("columns", [40, 60, 80, 118, 200])
def test_an_id_is_never_folded_on_a_terminal(
    terminal: pytest.MonkeyPatch, capsys: Capture, columns: int
) -> None:
    terminal.setenv("COLUMNS", str(columns))
    row = {"topic": "orders", "offsetMsgId": ID, "uniqKey": ID, "body": "some words " * 9}
    draw_rows([row], (), color=False)
    out = capsys.readouterr().out
    assert out.count(ID) == 2
    assert out.count("some") == 9


def test_a_table_that_just_fits_is_not_folded(
    terminal: pytest.MonkeyPatch, capsys: Capture
) -> None:
    rows = [{"name": "a b", "text": "one two three"}]
    terminal.setenv("COLUMNS", str(len("a b   one two three")))
    draw_rows(rows, (), color=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["NAME", "TEXT"], ["a", "b", "one", "two", "three"]]


def test_an_empty_column_stays_in_a_pipe_and_is_left_out_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    rows = [{"topic": "t", "tags": None, "keys": [], "size": 7}]
    draw_rows(rows, ("topic", "tags", "keys", "size"))
    head, line = capsys.readouterr().out.splitlines()
    assert (head.split(), line.split()) == (["TOPIC", "TAGS", "KEYS", "SIZE"], ["t", "-", "-", "7"])
    monkeypatch.setattr(table, "stdout_is_terminal", lambda: True)
    draw_rows(rows, ("topic", "tags", "keys", "size"), color=False)
    assert capsys.readouterr().out.split() == ["TOPIC", "SIZE", "t", "7"]


def test_a_thing_shows_every_field_in_a_pipe(capsys: Capture) -> None:
    draw_one({"topic": "t", "order": None}, ())
    assert capsys.readouterr().out == "topic  t\norder  -\n"
