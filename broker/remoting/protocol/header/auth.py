"""Users and access rules: ACL 1.0 (until 5.3.2) and ACL 2.0 (since 5.3.0)."""

from broker.remoting.protocol.header.fields import RequestHeader, ResponseHeader


class CreateAccessConfigRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """UPDATE_AND_CREATE_ACL_CONFIG (50); perms are comma lists of ``name=PERM``.

    **Source:** RocketMQ ``CreateAccessConfigRequestHeader``.
    """

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """DELETE_ACL_CONFIG (51).

    **Source:** RocketMQ ``DeleteAccessConfigRequestHeader``.
    """

    access_key: str


class GetBrokerAclConfigResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to GET_BROKER_CLUSTER_ACL_INFO (52); versions are DataVersions as JSON.

    **Source:** RocketMQ ``GetBrokerAclConfigResponseHeader``.
    """

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53).

    **Source:** RocketMQ ``UpdateGlobalWhiteAddrsConfigRequestHeader``.
    """

    global_white_addrs: str
    acl_file_full_path: str | None = None


class UserRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """AUTH_CREATE_USER (3001), _UPDATE_ (3002), _DELETE_ (3003), _GET_USER (3004).

    **Source:** RocketMQ ``CreateUserRequestHeader``, ``UpdateUserRequestHeader``,
    ``DeleteUserRequestHeader``, ``GetUserRequestHeader``.
    """

    username: str | None = None


class ListUsersRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """AUTH_LIST_USER (3005).

    **Source:** RocketMQ ``ListUsersRequestHeader``.
    """

    filter: str | None = None


class AclRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """AUTH_CREATE_ACL (3006), AUTH_UPDATE_ACL (3007), AUTH_GET_ACL (3009).

    ``subject`` e.g. ``User:alice``.

    **Source:** RocketMQ ``CreateAclRequestHeader``, ``UpdateAclRequestHeader``,
    ``GetAclRequestHeader``.
    """

    subject: str | None = None


class DeleteAclRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """AUTH_DELETE_ACL (3008).

    **Source:** RocketMQ ``DeleteAclRequestHeader``.
    """

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """AUTH_LIST_ACL (3010).

    **Source:** RocketMQ ``ListAclsRequestHeader``.
    """

    subject_filter: str | None = None
    resource_filter: str | None = None
