"""The passwords of users to create: from a file or from the environment, never an argument."""

import os
from typing import Annotated

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.framework.declare import Option
from mqadmin.output.stdio import read_input
from mqadmin.settings import read_file, text_of

#: A variable with the password of one user; the library completes the name.
VARIABLE_PREFIX = "MQADMIN_USER_PASSWORD_"

LIMIT_BYTES = 4 * 1024 * 1024

SecretsFile = Annotated[
    str | None,
    Option(
        "--secrets-file",
        metavar="FILE",
        help="File with lines USER=PASSWORD for users to create, - for stdin.",
        complete="file",
    ),
]


def user_passwords(path: str | None) -> dict[str, str]:
    """Return passwords by user name (of the file) and by variable name (of the environment).

    UsageFault with the number of an invalid line, never with its content.
    """
    found = {name: text for name, text in os.environ.items() if name.startswith(VARIABLE_PREFIX)}
    if path is None:
        return found
    data = read_input() if path == "-" else read_file(path, LIMIT_BYTES)
    lines = text_of(data, path).splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        username, separator, password = line.partition("=")
        if not separator or not username.strip() or not password.strip():
            raise UsageFault(f"{path} line {number}: it is not USER=PASSWORD")
        if found.setdefault(username.strip(), password.strip()) != password.strip():
            raise UsageFault(f"{path} line {number}: user {username.strip()} has two passwords")
    return found
