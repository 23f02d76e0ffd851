"""Sign a request: the same algorithm for ACL 1.0 (4.x) and ACL 2.0 (5.x); no I/O.

The signed content consists of the values of all ext fields, sorted by field name, without
separators, followed by the body. Code, opaque, flag and version are not signed. ``Signature`` is
the base64 of HMAC-SHA1 with the secret key.

**Source:** RocketMQ ``AclClientRPCHook``, ``AclUtils#combineRequestContent``, ``AclSigner``.
"""

import hmac
from base64 import b64encode

import msgspec

from broker.errors import LocalProtocolError
from broker.remoting.protocol.command import RemotingCommand

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"

VERSION_BEFORE_UNIQUE_KEY_QUERY = 399
"""Up to this header version (4.9.3), servers exclude ``_UNIQUE_KEY_QUERY`` from the content."""


def _utf16_order(name: str) -> bytes:
    # Java compares UTF-16 code units; the order differs from code points above U+FFFF
    return name.encode("utf-16-be", "surrogatepass")


def content_to_sign(command: RemotingCommand) -> bytes:
    """Return the bytes that the signature of a request covers."""
    ext = command.ext_fields
    left_out = {SIGNATURE}
    if command.version <= VERSION_BEFORE_UNIQUE_KEY_QUERY:
        left_out.add(UNIQUE_KEY_QUERY)
    order = None if all(map(str.isascii, ext)) else _utf16_order
    text = "".join(ext[name] for name in sorted(ext, key=order) if name not in left_out)
    try:
        return text.encode() + command.body_bytes()
    except UnicodeEncodeError as err:
        raise LocalProtocolError(f"request {command.code}: cannot be signed: {err}") from None


def signature(content: bytes, secret_key: str) -> str:
    """Return the base64 of HMAC-SHA1 over ``content``.

    **Source:** RocketMQ ``AclSigner#calSignature``.
    """
    return b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()


def is_signed_by(command: RemotingCommand, secret_key: str) -> bool:
    """Whether the request's signature matches ``secret_key``.

    **Source:** RocketMQ ``DefaultAuthenticationProvider``, ``PlainPermissionManager#validate``.
    """
    given = command.ext_fields.get(SIGNATURE, "")
    expected = signature(content_to_sign(command), secret_key)
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Access key (user name), secret key (password) and the token of a temporary session."""

    access_key: str
    secret_key: str
    security_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r}, secret_key=***)"

    def sign(self, command: RemotingCommand) -> None:
        """Add the access key and the signature to a request's ext fields, in place.

        A query by unique key is sent with header version 399 (4.9.3): for later versions 4.9 and
        5.x servers expect different signatures; for this one both exclude the field.

        **Source:** RocketMQ ``AclClientRPCHook#doBeforeRequest``.
        """
        ext = command.ext_fields
        ext[ACCESS_KEY] = self.access_key
        if self.security_token:
            ext[SECURITY_TOKEN] = self.security_token
        if UNIQUE_KEY_QUERY in ext:
            command.version = min(command.version, VERSION_BEFORE_UNIQUE_KEY_QUERY)
        ext[SIGNATURE] = signature(content_to_sign(command), self.secret_key)
