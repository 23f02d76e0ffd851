"""Headers of ACL 1.0 and ACL 2.0: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header import auth
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    auth.CreateAccessConfigRequestHeader: (
        "accessKey:s!, secretKey:s?, whiteRemoteAddress:s?, admin:b=false, "
        "defaultTopicPerm:s?, defaultGroupPerm:s?, topicPerms:s?, groupPerms:s?"
    ),
    auth.DeleteAccessConfigRequestHeader: "accessKey:s!",
    auth.GetBrokerAclConfigResponseHeader: (
        "version:s!, allAclFileVersion:s?, brokerName:s!, brokerAddr:s!, clusterName:s!"
    ),
    auth.UpdateGlobalWhiteAddrsRequestHeader: "globalWhiteAddrs:s!, aclFileFullPath:s?",
    auth.UserRequestHeader: "username:s?",
    auth.ListUsersRequestHeader: "filter:s?",
    auth.AclRequestHeader: "subject:s?",
    auth.DeleteAclRequestHeader: "subject:s?, policyType:s?, resource:s?",
    auth.ListAclsRequestHeader: "subjectFilter:s?, resourceFilter:s?",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(auth) == set(DECLARED)
