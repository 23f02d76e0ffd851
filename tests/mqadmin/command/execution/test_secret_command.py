import shlex
import sys

import pytest

from broker.errors import ConfigError
from mqadmin.command.execution.secret_command import printed_secret


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def test_the_output_without_its_line_end_is_the_secret() -> None:
    assert printed_secret(python("print('s3cret')"), 30_000) == "s3cret"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (python("import sys; print('s3cret'); sys.exit(3)"), "exit status 3"),
        (python("pass"), "printed nothing"),
        (python("import os; os.write(1, b's3cret' + bytes([255]))"), "not UTF-8"),
        ("/no/such/program", "No such file"),
        ("echo 'open", "No closing quotation"),
        ("", "it is empty"),
    ],
)
def test_a_command_that_fails_is_an_error_without_its_output(command: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as found:
        printed_secret(command, 30_000)
    assert "s3cret" not in found.value.message + found.value.hint


def test_a_command_that_does_not_end_is_ended_at_the_deadline() -> None:
    with pytest.raises(ConfigError, match="not done within 200 ms"):
        printed_secret(python("import threading; threading.Event().wait()"), 200)
