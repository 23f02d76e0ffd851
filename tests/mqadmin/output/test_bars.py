from mqadmin.output.bars import bar, bars, course


def test_the_largest_count_fills_the_width() -> None:
    assert bars([("a", 8), ("bb", 4), ("c", 0)], width=4) == [
        " a  8  ████",
        "bb  4  ██",
        " c  0",
    ]


def test_parts_of_a_cell_are_eighths() -> None:
    assert bars([("a", 16), ("b", 1)], width=4)[1] == "b   1  ▎"


def test_no_rows_give_no_lines() -> None:
    assert bars([]) == []
    assert course([]) == ""


def test_the_course_is_relative_to_its_largest_value() -> None:
    assert course([0, 7, 14]) == "▁▅█"


def test_a_long_course_is_averaged_to_the_width() -> None:
    assert course([1] * 50 + [8] * 50, width=4) == "▂▂██"


def test_a_course_of_zeros_is_flat() -> None:
    assert course([0, 0]) == "▁▁"


def test_a_bar_is_relative_to_the_largest_count() -> None:
    assert bar(8, 8, width=4) == "████"
    assert bar(1, 8, width=4) == "▌"
    assert bar(0, 8, width=4) == ""
    assert bar(0, 0) == ""
