"""Signatures and TLS contexts of a session."""

import pytest

from broker.errors import ConfigError
from broker.remoting.protocol.command import request
from mqadmin.admin.connect.access import account, tls_context


def test_an_account_adds_key_and_signature_and_not_the_secret() -> None:
    command = request(105, {"topic": "t"})
    account("ak", "sk").sign(command)
    assert command.ext_fields["AccessKey"] == "ak"
    assert command.ext_fields["Signature"]
    assert "sk" not in command.ext_fields.values()


def test_a_tls_file_that_cannot_be_used_is_named(tmp_path: object) -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        tls_context(ca=f"{tmp_path}/nosuch.pem")
    assert tls_context().check_hostname
