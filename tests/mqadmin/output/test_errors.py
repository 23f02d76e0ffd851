import json

import pytest

from mqadmin.output.errors import ErrorReport, emit_error, emit_note

Capture = pytest.CaptureFixture[str]


def test_a_person_gets_two_lines(capsys: Capture) -> None:
    emit_error(ErrorReport("unreachable", "PULL (h:1): refused", "is it up?"))
    assert capsys.readouterr().err == "error: PULL (h:1): refused\nhint: is it up?\n"


def test_no_hint_no_second_line(capsys: Capture) -> None:
    emit_error(ErrorReport("client", "no"))
    assert capsys.readouterr().err == "error: no\n"


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_a_program_gets_one_object_with_every_field(capsys: Capture, form: str) -> None:
    report = ErrorReport(
        "damaged", "m", "h", path="/x", physical_offset=7, request_code=11, response_code=None
    )
    emit_error(report, form=form)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err) == {
        "error": {
            "kind": "damaged",
            "message": "m",
            "hint": "h",
            "address": None,
            "requestCode": 11,
            "responseCode": None,
            "path": "/x",
            "physicalOffset": 7,
        }
    }


def test_a_stack_trace_in_a_remark_is_cut_to_its_first_line(capsys: Capture) -> None:
    emit_error(ErrorReport("refused", "boom\n\tat java.lang.Thread"))
    assert capsys.readouterr().err == "error: boom …\n"


def test_talk_cannot_drive_the_terminal(capsys: Capture) -> None:
    emit_note("a\x1b]0;b")
    assert capsys.readouterr().err == "a\\x1b]0;b\n"
