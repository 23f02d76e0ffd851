"""The passwords of users that a metadata file names: they are never part of the file."""

from collections.abc import Mapping
from typing import Final

from broker.errors import ClientError

VARIABLE_PREFIX: Final = "MQADMIN_USER_PASSWORD_"
"""Prefix of the variables with the password of one user."""

#: User name or variable name → password; None: the change is planned now and applied later.
Passwords = Mapping[str, str]


def variable_of(username: str) -> str:
    """Return the name of the environment variable with the password of a user."""
    characters = (c.upper() if c.isascii() and c.isalnum() else "_" for c in username)
    return VARIABLE_PREFIX + "".join(characters)


def password_of(username: str, passwords: Passwords | None) -> str:
    """Return the password of a user to create; ClientError with the user and the next step."""
    if passwords is None:
        raise ClientError(
            f"user {username} does not exist, and a plan file contains no passwords",
            f"create it without --plan, or with: mqadmin user create {username}",
        )
    variable = variable_of(username)
    password = passwords.get(username) or passwords.get(variable)
    if not password:
        raise ClientError(
            f"user {username} does not exist, and no password is given for it",
            f"add a line {username}=PASSWORD to the file of --secrets-file, or set {variable}",
        )
    return password
