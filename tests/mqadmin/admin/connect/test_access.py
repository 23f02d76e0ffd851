"""Signatures and TLS contexts of a session."""

import ssl

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


def test_every_file_of_a_refusal_is_named_and_the_form_expected(tmp_path: object) -> None:
    names = {name: f"{tmp_path}/{name}.pem" for name in ("ca", "cert", "key")}
    for path in names.values():
        with open(path, "w", encoding="ascii") as file:
            file.write("not a certificate")
    with pytest.raises(ConfigError) as caught:
        tls_context(**names)
    assert all(path in caught.value.message for path in names.values())
    assert caught.value.hint == "PEM files are expected"


def test_a_key_without_its_certificate_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"tls-key \(k\.pem\): no tls-cert is given") as caught:
        tls_context(key="k.pem")
    assert "--tls-cert" in caught.value.hint
    assert tls_context().verify_mode == ssl.CERT_REQUIRED


def test_two_commands_have_different_signatures() -> None:
    signer = account("ak", "sk")
    first, second = request(105, {"topic": "t"}), request(105, {"topic": "u"})
    signer.sign(first)
    signer.sign(second)
    assert first.ext_fields["Signature"] != second.ext_fields["Signature"]


def test_the_signature_of_equal_commands_depends_on_the_secret_alone() -> None:
    texts = []
    for secret in ("sk", "sk", "other"):
        command = request(105, {"topic": "t"})
        account("ak", secret).sign(command)
        texts.append(command.ext_fields["Signature"])
    assert texts[0] == texts[1] != texts[2]
