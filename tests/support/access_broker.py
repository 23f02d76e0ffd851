"""Users and access rules of a broker in memory: codes 3001 to 3010, as Java 5.3.3 answers."""

from typing import Any

from broker.remoting.protocol.body.auth import (
    AclInfo,
    AclList,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserList,
)
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from tests.support.fake_brokers import Answer, FakeBroker


class AccessTable:
    """The users and rules of one broker; ``serve`` lets a fake broker answer with them."""

    def __init__(self) -> None:
        self.users: dict[str, UserInfo] = {}
        self.rules: dict[str, dict[str, PolicyEntryInfo]] = {}

    def serve(self, broker: FakeBroker) -> "AccessTable":
        handlers = {
            3001: self.create_user,
            3002: self.update_user,
            3003: self.delete_user,
            3004: self.get_user,
            3005: self.list_users,
            3006: self.put_acl,
            3007: self.put_acl,
            3008: self.delete_acl,
            3009: self.get_acl,
            3010: self.list_acls,
        }
        for code, handler in handlers.items():
            setattr(broker, f"on_{code}", handler)
        return self

    def create_user(self, header: Any, command: RemotingCommand) -> None:
        if header.username in self.users:
            raise Answer(ResponseCode.NO_PERMISSION, "The user is existed")
        sent = UserInfo.from_bytes(command.body_bytes())
        self.users[header.username] = UserInfo(
            username=header.username,
            password=sent.password,
            user_type=sent.user_type or "Normal",
            user_status=sent.user_status or "enable",
        )

    def update_user(self, header: Any, command: RemotingCommand) -> None:
        old, sent = self.users[header.username], UserInfo.from_bytes(command.body_bytes())
        self.users[header.username] = UserInfo(
            username=header.username,
            password=sent.password or old.password,
            user_type=sent.user_type or old.user_type,
            user_status=sent.user_status or old.user_status,
        )

    def delete_user(self, header: Any, command: RemotingCommand) -> None:
        self.users.pop(header.username, None)

    def get_user(self, header: Any, command: RemotingCommand) -> Any:
        return self.users.get(header.username)

    def list_users(self, header: Any, command: RemotingCommand) -> Any:
        found = [user for name, user in self.users.items() if (header.filter or "") in name]
        return UserList(items=found) if found else None

    def put_acl(self, header: Any, command: RemotingCommand) -> None:
        for policy in AclInfo.from_bytes(command.body_bytes()).policies or ():
            for entry in policy.entries or ():
                self.rules.setdefault(header.subject, {})[entry.resource or ""] = entry

    def delete_acl(self, header: Any, command: RemotingCommand) -> None:
        rules = self.rules.get(header.subject, {})
        if header.resource is not None:
            rules.pop(header.resource, None)
        if header.resource is None or not rules:
            self.rules.pop(header.subject, None)

    def get_acl(self, header: Any, command: RemotingCommand) -> Any:
        rules = self.rules.get(header.subject)
        return None if rules is None else _info(header.subject, rules)

    def list_acls(self, header: Any, command: RemotingCommand) -> Any:
        found = [
            _info(subject, rules)
            for subject, rules in self.rules.items()
            if (header.subject_filter or "") in subject
        ]
        return AclList(items=found) if found else None


def _info(subject: str, rules: dict[str, PolicyEntryInfo]) -> AclInfo:
    policy = PolicyInfo(policy_type="Custom", entries=list(rules.values()))
    return AclInfo(subject=subject, policies=[policy])
