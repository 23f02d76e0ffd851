"""``mqadmin user``: list, get, create, update, delete."""

from typing import Annotated, Literal

from mqadmin.admin.access import users as library
from mqadmin.command.access.password import PasswordFile, read_password
from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import IfNotExists, OnlyCluster
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.output.view import View

NOUN = Noun(
    "user",
    """List, create, change and delete users of brokers with ACL 2.0.

    Users and passwords sign requests (--access-key, --secret-key-file). A Super user may do
    everything; a Normal user needs rules, see 'mqadmin acl'. Each broker process stores its users,
    so a change is applied to every process of the cluster. Passwords are never shown. ACL 2.0
    exists since 5.3.0.
    """,
)

USER_COLUMNS = ("username", "userType", "userStatus", "clusterName", "brokerName", "address")
USER_LIST = View("user.list", USER_COLUMNS)
USER_GET = View("user.get", USER_COLUMNS)

Username = Annotated[str, Argument("USER", help="Name of the user.")]
Cluster = Annotated[
    str | None,
    Option(
        "--cluster",
        "-c",
        metavar="NAME",
        help="Cluster whose processes are changed; default: the only cluster.",
    ),
]
Broker = Annotated[
    str | None,
    Option("--broker", "-b", metavar="BROKER", help="Only this broker (name or HOST:PORT)."),
]
UserType = Literal["Super", "Normal"]


@NOUN.verb("list", view=USER_LIST, examples=["mqadmin user list", "mqadmin user list --name ali"])
def list_users(
    session: Session,
    name: Annotated[
        str | None, Option("--name", metavar="TEXT", help="Only users whose name contains it.")
    ] = None,
    cluster: OnlyCluster = None,
    broker: Broker = None,
) -> None:
    """List users, one line per user and broker process."""
    listing = library.UserAdmin(session.admin).list(pattern=name, cluster=cluster, broker=broker)
    session.emit_listing(USER_LIST, listing)


@NOUN.verb("get", view=USER_GET, examples=["mqadmin user get alice"])
def get(
    session: Session, username: Username, cluster: OnlyCluster = None, broker: Broker = None
) -> None:
    """Show a user on each broker process that has it."""
    listing = library.UserAdmin(session.admin).get(username, cluster=cluster, broker=broker)
    session.emit_listing(
        USER_GET,
        listing,
        nothing=f"no broker has user {username}",
        hint="mqadmin user list lists the users",
    )


@NOUN.verb(
    "create",
    view=change_view("user.create"),
    changes=True,
    examples=[
        "mqadmin user create alice --password-file alice.key --yes",
        "mqadmin user create root --type Super --dry-run",
    ],
)
def create(
    session: Session,
    username: Username,
    password_file: PasswordFile = None,
    user_type: Annotated[UserType, Option("--type", help="Type of the user.")] = "Normal",
    cluster: Cluster = None,
    broker: Broker = None,
    if_not_exists: IfNotExists = False,
) -> None:
    """Create a user on every broker process of a cluster."""
    session.require_consent()
    password = read_password(password_file, username)
    run_change(
        session,
        library.UserAdmin,
        lambda users: users.plan_create(
            username,
            password,
            user_type=user_type,
            cluster=cluster,
            broker=broker,
            if_not_exists=if_not_exists,
        ),
        f"create user {username}?",
    )


@NOUN.verb(
    "update",
    view=change_view("user.update"),
    changes=True,
    examples=[
        "mqadmin user update alice --disable --yes",
        "mqadmin user update alice --password --password-file new.key --yes",
    ],
)
def update(
    session: Session,
    username: Username,
    password: Annotated[
        bool, Option("--password", help="Change the password; implied by --password-file.")
    ] = False,
    password_file: PasswordFile = None,
    user_type: Annotated[UserType | None, Option("--type", help="Type of the user.")] = None,
    enable: Annotated[
        bool | None, Option("--enable/--disable", help="Whether the user may sign in.")
    ] = None,
    cluster: Cluster = None,
    broker: Broker = None,
) -> None:
    """Change the password, type or status of a user; omitted fields are kept."""
    session.require_consent()
    if not password and password_file is None and user_type is None and enable is None:
        raise UsageFault(
            f"nothing to change about user {username}", "--password, --type, --enable or --disable"
        )
    wanted = password or password_file is not None
    secret = read_password(password_file, username) if wanted else None
    status = None if enable is None else (library.ENABLE if enable else library.DISABLE)
    run_change(
        session,
        library.UserAdmin,
        lambda users: users.plan_update(
            username,
            password=secret,
            user_type=user_type,
            user_status=status,
            cluster=cluster,
            broker=broker,
        ),
        f"update user {username}?",
    )


@NOUN.verb(
    "delete",
    view=change_view("user.delete"),
    changes=True,
    examples=["mqadmin user delete alice --dry-run", "mqadmin user delete alice --yes"],
)
def delete(
    session: Session, username: Username, cluster: Cluster = None, broker: Broker = None
) -> None:
    """Delete a user on every broker process that has it, and its access rules with it."""
    run_change(
        session,
        library.UserAdmin,
        lambda users: users.plan_delete(username, cluster=cluster, broker=broker),
        f"delete user {username}?",
    )
