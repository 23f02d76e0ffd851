import gzip
import json
from pathlib import Path

import pytest

from broker.errors import LocalProtocolError
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.security.signing import (
    Credentials,
    content_to_sign,
    is_signed_by,
    signature,
)

KNOWN = Credentials(access_key="rocketmq2", secret_key="12345678")
AUTH_FRAMES = Path(__file__).parents[3] / "golden" / "frames" / "auth-5.3.3.jsonl.gz"

SEND = {
    "a": "P1",
    "b": "T1",
    "c": "TBW102",
    "d": "4",
    "e": "2",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x01AC11000100012A139A5518B4AAC20000\x02TAGS\x01TagA\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "b-a",
}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (RemotingCommand(code=106), "Ou1T58RIcyZWaTIwzkhJZWn/Zvs="),
        (RemotingCommand(code=105, ext_fields={"topic": "T1"}), "3G4rF9vjNkRStDiPAXoCg159+0E="),
        (
            RemotingCommand(code=310, ext_fields=dict(SEND), body=b"hello"),
            "hXBbb1CduzDKjr0T+k/hX4ljvn4=",
        ),
    ],
)
def test_known_signatures(command, expected):
    KNOWN.sign(command)
    assert command.ext_fields["AccessKey"] == "rocketmq2"
    assert command.ext_fields["Signature"] == expected
    assert is_signed_by(command, "12345678")
    assert not is_signed_by(command, "12345679")


def test_recorded_requests_are_signed_by_the_users_password():
    good, bad = 0, 0
    with gzip.open(AUTH_FRAMES, "rt") as lines:
        for line in lines:
            frame = json.loads(line)
            if "Signature" not in (frame["ext"] or {}):
                continue
            (command,) = FrameDecoder().feed(bytes.fromhex(frame["hex"]))
            wrong = "wrong signature" in frame["label"]
            assert is_signed_by(command, "peer12345678") is not wrong, frame["n"]
            good, bad = good + (not wrong), bad + wrong
    assert (good, bad) == (86, 14)


def test_values_are_sorted_by_name_with_capitals_first():
    command = RemotingCommand(
        ext_fields={"b": "3", "a": "2", "Z": "1", "Signature": "x"}, body=b"!"
    )
    assert content_to_sign(command) == b"123!"


def test_names_are_compared_as_utf16():
    command = RemotingCommand(ext_fields={"\uff5e": "2", "😀": "1"})
    assert content_to_sign(command) == b"12"


def test_the_unique_key_mark_is_left_out_up_to_4_9_3():
    ext = {"key": "K", "_UNIQUE_KEY_QUERY": "true"}
    assert content_to_sign(RemotingCommand(ext_fields=ext, version=399)) == b"K"
    assert content_to_sign(RemotingCommand(ext_fields=ext, version=401)) == b"trueK"


def test_a_query_by_unique_key_is_signed_so_that_old_and_new_servers_agree():
    command = request(12, {"key": "K", "_UNIQUE_KEY_QUERY": "true"})
    KNOWN.sign(command)
    assert command.version == 399
    assert command.ext_fields["Signature"] == signature(b"rocketmq2K", "12345678")
    plain = request(12, {"key": "K"})
    version = plain.version
    KNOWN.sign(plain)
    assert plain.version == version


def test_a_session_token_is_signed_too():
    command = RemotingCommand(code=106)
    Credentials(access_key="k", secret_key="s", security_token="t").sign(command)
    assert command.ext_fields["SecurityToken"] == "t"
    assert command.ext_fields["Signature"] == signature(b"kt", "s")


def test_signing_again_replaces_the_signature():
    command = request(105, {"topic": "T1"})
    KNOWN.sign(command)
    first = dict(command.ext_fields)
    KNOWN.sign(command)
    assert command.ext_fields == first


def test_the_secret_is_not_shown():
    assert "12345678" not in repr(KNOWN)


def test_a_request_without_signature_matches_no_user():
    assert not is_signed_by(RemotingCommand(code=106), "")


def test_text_that_cannot_be_sent_cannot_be_signed():
    with pytest.raises(LocalProtocolError, match="request 105"):
        content_to_sign(RemotingCommand(code=105, ext_fields={"topic": "\ud800"}))
