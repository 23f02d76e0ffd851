"""The printed layouts."""

from pathlib import Path

from broker.store.format.layout import (
    LAYOUTS,
    find_layouts,
    layout_object,
    layout_rows,
    layout_text,
    layout_troff,
)


def test_each_layout_has_its_own_name() -> None:
    names = [layout.name for layout in LAYOUTS]
    assert len(set(names)) == len(names)


def test_layouts_are_found_by_name_and_by_its_begin() -> None:
    assert [layout.name for layout in find_layouts("record")] == ["record"]
    assert [layout.name for layout in find_layouts("Index")] == [
        "index-header",
        "index-slot",
        "index-entry",
    ]
    assert [layout.name for layout in find_layouts("consumequeue")] == ["consumequeue"]
    assert len(find_layouts()) == len(LAYOUTS)
    assert find_layouts("nothing") == []


def test_rows_contain_position_and_meaning_of_each_field() -> None:
    (record,) = find_layouts("record")
    rows = {row["field"]: row for row in layout_rows(record)}
    assert (rows["reconsumeTimes"]["offset"], rows["reconsumeTimes"]["width"]) == (72, 4)
    assert (rows["body"]["offset"], rows["body"]["width"]) == (88, None)
    assert rows["topic"]["offset"] is None
    assert all(row["meaning"] for layout in LAYOUTS for row in layout_rows(layout))


def test_every_form_names_every_field() -> None:
    for layout in LAYOUTS:
        plain = layout_object(layout)
        for form in (layout_text(layout), layout_troff(layout)):
            for row in plain["fields"]:
                assert row["field"] in form
        assert plain["path"]


def test_text_never_runs_over_its_page() -> None:
    for layout in LAYOUTS:
        for line in layout_text(layout).splitlines():
            assert len(line) <= 130, line


def test_troff_control_characters_are_escaped() -> None:
    text = "".join(layout_troff(layout) for layout in LAYOUTS)
    body = [line for line in text.splitlines() if not line.startswith(".")]
    assert not [line for line in body if "-" in line.replace("\\-", "")]
    assert text.count(".TS") == text.count(".TE") == len(LAYOUTS)


def test_formats_change_on_purpose_only(golden: Path) -> None:
    """Whoever changes a format changes this file too: scripts/golden --layout."""
    printed = "\n".join(layout_text(layout) for layout in LAYOUTS)
    assert printed == (golden / "layout" / "layout.txt").read_text()
