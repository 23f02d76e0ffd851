"""The password of a user that is created or changed: never an argument, never shown."""

import os
from getpass import getpass
from typing import Annotated

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.framework.declare import Option
from mqadmin.output.stdio import read_input, stdin_is_terminal
from mqadmin.settings import read_file

#: The variable that holds the password of a user to create or change.
VARIABLE = "MQADMIN_USER_PASSWORD"

PASSWORD_LIMIT_BYTES = 64 * 1024

PasswordFile = Annotated[
    str | None,
    Option(
        "--password-file",
        metavar="FILE",
        help=f"File with the user's password, - for stdin; default: {VARIABLE}, or a question.",
        complete="file",
    ),
]


def read_password(path: str | None, username: str) -> str:
    """Return the password from the file, the variable, or a question on the terminal.

    UsageFault for an empty password, and without any of the three.
    """
    if path is not None:
        data = read_input() if path == "-" else read_file(path, PASSWORD_LIMIT_BYTES)
        password = _text(data, path)
    elif os.environ.get(VARIABLE):
        password = os.environ[VARIABLE]
    elif stdin_is_terminal():
        password = _asked(username)
    else:
        raise _not_given(username)
    if not password:
        raise UsageFault(f"the password of user {username} is empty")
    return password


def _asked(username: str) -> str:
    try:
        password = getpass(f"password of user {username}: ")
        again = getpass("the same password again: ")
    except EOFError:
        raise _not_given(username) from None
    if password != again:
        raise UsageFault("the passwords differ; nothing was changed")
    return password


def _not_given(username: str) -> UsageFault:
    return UsageFault(
        f"no password is given for user {username}",
        f"name a file with --password-file, or set {VARIABLE}",
    )


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageFault(f"{path}: the password is not valid UTF-8") from None
