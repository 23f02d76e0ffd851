"""Java's commands about users; passwords are not printed."""

from collections.abc import Sequence

from mqadmin.admin.access.acls import AclAdmin
from mqadmin.admin.access.users import NORMAL, SUPER, UserAdmin, UserRecord
from mqadmin.admin.result import Listing
from mqadmin.command.execution.failure import NoResults
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.output.stdio import read_input

ROW = "%-16s  %-22s  %-22s  %-22s"

#: Printed in place of a password.
HIDDEN = "******"


@java_command("getUser")
def get_user(call: JavaCall) -> None:
    """Print a user of each broker process. **Source:** RocketMQ ``GetUserSubCommand``."""
    users = UserAdmin(call.admin)
    if call.get("u") is None:
        raise call.fault("u", "the name of the user is missing")
    name = call.text("u")
    listing = users.get(name, cluster=call.get("c"), broker=call.get("b"))
    if not listing.items and not listing.errors:
        raise NoResults(f"no broker has user {name}", "mqadmin user list lists the users")
    _print(call, listing)


@java_command("listUser")
def list_user(call: JavaCall) -> None:
    """Print the users of each broker process. **Source:** RocketMQ ``ListUserSubCommand``."""
    listing = UserAdmin(call.admin).list(
        pattern=call.get("f"), cluster=call.get("c"), broker=call.get("b")
    )
    _print(call, listing)


def _print(call: JavaCall, listing: Listing[UserRecord]) -> None:
    call.line(ROW % ("#UserName", "#Password", "#UserType", "#UserStatus"))
    rows = [(item.username, HIDDEN, item.user_type, item.user_status) for item in listing.items]
    for row in dict.fromkeys(rows):  # the processes of a cluster have the same users
        call.line(ROW % row)
    call.errors(listing.errors, some_worked=bool(rows))


@java_command("createUser", changes=True)
def create_user(call: JavaCall) -> None:
    """Create a user on every process of a cluster. **Source:** RocketMQ ``CreateUserSubCommand``.

    ``-p -`` reads the password from stdin.
    """
    user_type = call.choice("t", (SUPER, NORMAL)) if call.get("t") is not None else NORMAL
    users = UserAdmin(call.admin)
    plan = users.plan_create(
        call.text("u"),
        _password(call),
        user_type=user_type,
        cluster=call.get("c"),
        broker=call.get("b"),
    )
    for item in call.apply(users, plan):
        call.line(f"create user to {item.address} success.")


@java_command("updateUser", changes=True)
def update_user(call: JavaCall) -> None:
    """Change password, type or status of a user. **Source:** RocketMQ ``UpdateUserSubCommand``."""
    given = {option: call.get(option) is not None for option in ("p", "t", "s")}
    users = UserAdmin(call.admin)
    plan = users.plan_update(
        call.text("u"),
        password=_password(call) if given["p"] else None,
        user_type=call.choice("t", (SUPER, NORMAL)) if given["t"] else None,
        user_status=call.choice("s", ("enable", "disable")) if given["s"] else None,
        cluster=call.get("c"),
        broker=call.get("b"),
    )
    for item in call.apply(users, plan):
        call.line(f"update user to {item.address} success.")


@java_command("deleteUser", changes=True)
def delete_user(call: JavaCall) -> None:
    """Delete a user. **Source:** RocketMQ ``DeleteUserSubCommand``."""
    users = UserAdmin(call.admin)
    plan = users.plan_delete(call.text("u"), cluster=call.get("c"), broker=call.get("b"))
    for item in call.apply(users, plan):
        call.line(f"delete user to {item.address} success.")


@java_command("copyUser", changes=True)
def copy_user(call: JavaCall) -> None:
    """Copy users with their passwords to another broker.

    **Source:** RocketMQ ``CopyUsersSubCommand``.
    """
    copy_entries(call, UserAdmin(call.admin), "user", split_words(call.get("u")))


def copy_entries(
    call: JavaCall, library: UserAdmin | AclAdmin, noun: str, names: Sequence[str]
) -> None:
    """Copy users or rules from the broker of option -f to that of -t; no ``names``: all."""
    source, target = call.text("f"), call.text("t")
    for plan in library.copy_plans(source, target, names):
        if call.apply(library, plan):
            call.line(f"copy {noun} of {plan.subject} from {source} to {target} success.")


def _password(call: JavaCall) -> str:
    """Return the password; one that is an argument is visible to other users of the machine."""
    text = call.text("p")
    if text == "-":
        return read_input().decode("utf-8", "replace").rstrip("\r\n")
    call.session.note(
        "warning: other users of this machine can see a password among the arguments: "
        "-p - reads it from stdin"
    )
    return text


def split_words(text: str | None) -> list[str]:
    """Split a list separated by commas."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]
