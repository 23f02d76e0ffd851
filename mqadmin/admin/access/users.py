"""Users of brokers: list, get, create, update, delete.

Each broker process stores its users, slaves included, so all processes are read and changed.
Passwords are sent in clear, as the protocol requires, and never returned or shown: a plan contains
only whether the password is the given one.

**Source:** RocketMQ ``CreateUserSubCommand``, ``AuthenticationMetadataManagerImpl``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from broker.errors import ClientError, ConfigError, RocketMQError
from broker.remoting.protocol.body.auth import UserInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.access.replies import EntryReader, found_values
from mqadmin.admin.change import State, apply_plan, creation_plan
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

SUPER, NORMAL = "Super", "Normal"
ENABLE, DISABLE = "enable", "disable"

#: The password in a state: compared with the given one, never shown.
GIVEN, OTHER = "as given", "another"


class UserRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user of one broker process. ``userType`` Super or Normal, ``userStatus`` enable or disable.

    The password is not part of it.
    """

    username: str
    user_type: str | None
    user_status: str | None
    cluster_name: str | None
    broker_name: str | None
    address: str


class UserAdmin:
    """Queries and changes of users."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin
        self._users = EntryReader(
            admin,
            get_code=RequestCode.AUTH_GET_USER,
            list_code=RequestCode.AUTH_LIST_USER,
            name_field="username",
            missing=_no_user,
        )
        self._password: str | None = None  # of the plan, for the comparison after it was applied

    def list(
        self, *, pattern: str | None = None, cluster: str | None = None, broker: str | None = None
    ) -> Listing[UserRecord]:
        """Return one record per user and broker process; ``pattern`` is a part of the name."""
        targets = self._admin.topology.processes(cluster=cluster, broker=broker)
        good, errors = part_errors(
            targets,
            found_values(self._admin, targets, RequestCode.AUTH_LIST_USER, filter=pattern),
        )
        items = [
            _record(one, target)
            for target, found in good
            for one in (found.items if found is not None else ())
        ]
        items.sort(key=lambda item: (item.username, item.broker_name or "", item.address))
        return Listing(items=items, errors=errors)

    def get(
        self, username: str, *, cluster: str | None = None, broker: str | None = None
    ) -> Listing[UserRecord]:
        """Return the user on each broker process that has it."""
        targets = self._admin.topology.processes(cluster=cluster, broker=broker)
        good, errors = part_errors(targets, self._users.named(targets, username))
        items = [_record(found, target) for target, found in good if found is not None]
        return Listing(items=items, errors=errors)

    def plan_create(
        self,
        username: str,
        password: str,
        *,
        user_type: str = NORMAL,
        cluster: str | None = None,
        broker: str | None = None,
        if_not_exists: bool = False,
    ) -> Plan:
        """Plan a new user on every process of the cluster; ClientError if it exists."""
        _check_name(username)
        if not password:
            raise ConfigError(f"user {username}: the password is empty")
        targets = self._users.targets(cluster, broker)
        good, errors = part_errors(targets, self._users.named(targets, username))
        self._password = password
        info = UserInfo(username=username, password=password, user_type=user_type)
        after = {"userType": user_type, "userStatus": ENABLE, "password": GIVEN}

        def change(target: Target, found: Any) -> Change:
            if found is None:
                return _change(target, "create", None, after, info)
            kept = _state(found, None)
            return _change(target, "create", kept, kept, info)

        return creation_plan(
            "user", username, good, change, errors=errors, if_not_exists=if_not_exists
        )

    def plan_update(
        self,
        username: str,
        *,
        password: str | None = None,
        user_type: str | None = None,
        user_status: str | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan a change of password, type or status; omitted fields are kept."""
        wanted: dict[str, str] = {}
        if user_type is not None:
            wanted["userType"] = user_type
        if user_status is not None:
            wanted["userStatus"] = user_status
        if password is not None:
            if not password:
                raise ConfigError(f"user {username}: the password is empty")
            wanted["password"] = GIVEN
        if not wanted:
            raise ConfigError(
                f"nothing to change about user {username}",
                "give a new password, --type, or --enable or --disable",
            )
        self._password = password
        info = UserInfo(
            username=username, password=password, user_type=user_type, user_status=user_status
        )
        changes = []
        existing, errors = self._users.existing(username, cluster, broker)
        for target, found in existing:
            before = _state(found, password)
            changes.append(_change(target, "update", before, {**before, **wanted}, info))
        return Plan(kind="user.update", subject=username, changes=changes, errors=errors)

    def plan_delete(
        self, username: str, *, cluster: str | None = None, broker: str | None = None
    ) -> Plan:
        """Plan to remove a user; ClientError if no broker has it."""
        found, errors = self._users.existing(username, cluster, broker)
        changes = [
            _change(target, "delete", _state(one, None), None, UserInfo(username=username))
            for target, one in found
        ]
        return Plan(kind="user.delete", subject=username, changes=changes, errors=errors)

    def copy_plans(self, source: str, target: str, usernames: Sequence[str] = ()) -> Iterator[Plan]:
        """Yield the plan of each user to copy, with its password, from one broker to another.

        A plan is applied before the next one is made. ClientError for a user that the source does
        not have.

        **Source:** RocketMQ ``CopyUsersSubCommand``.
        """
        (place,) = self._admin.topology.named(target)[:1]
        for name, info in self._users.to_copy(source, usernames):
            self._password = info.password
            good, errors = part_errors([place], self._users.named([place], name))
            changes = []
            for there, found in good:
                before = None if found is None else _state(found, info.password)
                action = "create" if before is None else "update"
                changes.append(_change(there, action, before, _state(info, info.password), info))
            yield Plan(kind="user.copy", subject=name, changes=changes, errors=errors)

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan of this noun; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        return self._users.states(plan, lambda found: _state(found, self._password))


def _no_user(username: str, place: str) -> ClientError:
    return ClientError(
        f"user {username} does not exist on {place}", "mqadmin user list lists the users"
    )


def _check_name(username: str) -> None:
    if not username.strip():
        raise ConfigError("the name of a user cannot be blank")


def _record(info: Any, target: Target) -> UserRecord:
    return UserRecord(
        username=info.username or "",
        user_type=info.user_type,
        user_status=info.user_status,
        cluster_name=target.cluster_name,
        broker_name=target.broker_name,
        address=target.address,
    )


def _state(info: Any, password: str | None) -> Mapping[str, Any]:
    """Return the state of a user; the password only if one was given to compare it with."""
    state = {"userType": info.user_type, "userStatus": info.user_status}
    if password is not None:
        state["password"] = GIVEN if info.password == password else OTHER
    return state


_CODES = {
    "create": RequestCode.AUTH_CREATE_USER,
    "update": RequestCode.AUTH_UPDATE_USER,
    "delete": RequestCode.AUTH_DELETE_USER,
}


def _change(
    target: Target,
    action: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    info: UserInfo,
) -> Change:
    code = _CODES[action]
    fields = build_request(code, {"username": info.username}).ext_fields
    return Change(
        target=target.label,
        address=target.address,
        action=action,
        before=before,
        after=after,
        request=None
        if before == after
        else Request(
            address=target.address,
            code=code,
            ext_fields=fields,
            body=b"" if action == "delete" else info.to_bytes(),
        ),
    )
