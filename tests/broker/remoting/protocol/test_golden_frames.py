"""Every recorded frame of real peers, read and written by the pure protocol."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

from broker.common.encoding import java_json
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.remoting.protocol.rpc import (
    BODY_KINDS,
    RPC,
    decode_header_fields,
    encode_header_fields,
)

FRAMES = Path(__file__).parents[3] / "golden" / "frames"

# Ext fields that hooks add to any request; no typed header declares them
HOOK_FIELDS = {"AccessKey", "Signature", "ReqT"}

# POP_MESSAGE sent with a ROCKETMQ header: 16 bits are left of 200050
CUT_POP_CODE = 3442


def text_of(value):
    return value if isinstance(value, str) else json.dumps(value)


def decode_one(frame):
    (command,) = FrameDecoder().feed(frame.data)
    return command


def test_the_recordings_are_the_ones_the_manifest_names():
    lines = (FRAMES / "MANIFEST").read_text().splitlines()
    named = dict(
        reversed(m.groups()) for m in map(re.compile(r"(\w{64})  (\S+)").match, lines) if m
    )
    assert set(named) == {path.name for path in FRAMES.glob("*.gz")}
    for name, digest in named.items():
        assert hashlib.sha256((FRAMES / name).read_bytes()).hexdigest() == digest, name


def test_every_frame_decodes_to_the_recorded_values(golden_frames):
    assert len(golden_frames) == 5950
    for frame in golden_frames:
        command, recorded = decode_one(frame), frame.recorded
        fields = (
            command.code,
            command.opaque,
            command.flag,
            command.language,
            command.version,
            command.remark,
        )
        names = ("code", "opaque", "flag", "language", "version", "remark")
        assert fields == tuple(recorded[name] for name in names), frame.name
        ext = recorded["ext"] or {}
        assert command.ext_fields == {n: text_of(v) for n, v in ext.items() if v is not None}
        assert command.serialize_type == {"json": "JSON", "rocketmq": "ROCKETMQ"}[recorded["head"]]
        assert len(command.body) == recorded["body"]
        assert command.extra is None


def test_every_frame_is_written_back_to_the_same_bytes(golden_frames):
    """But JSON headers of other field order (Go, Node) and with an empty ``extFields``."""
    same = Counter()
    for frame in golden_frames:
        command = decode_one(frame)
        again = encode_frame(command)
        head = frame.recorded["head"]
        same[head, again == frame.data] += 1
        if again == frame.data:
            continue
        assert head == "json", frame.name
        java_order = frame.header.startswith((b'{"code":%d,"ext' % command.code, b'{"code":0,"f'))
        if java_order:
            assert b'"extFields":{},' in frame.header, frame.name
        (reread,) = FrameDecoder().feed(again)
        assert reread == command, frame.name
    assert same["rocketmq", True] == 314
    assert same["json", True] == 4994 - 314


def test_every_typed_header_is_read_and_written_back(golden_frames):
    unread = Counter()
    for frame in golden_frames:
        if frame.request_code == CUT_POP_CODE:
            continue
        rpc, command = RPC[frame.request_code], decode_one(frame)
        header = rpc.response_header_type if frame.is_response else rpc.request_header_type
        if header is None:
            unread.update(command.ext_fields.keys())
            continue
        try:
            again = encode_header_fields(decode_header_fields(header, command.ext_fields))
        except RemoteProtocolError:
            # A refusal need not fill the header; only these never do
            assert frame.is_response, frame.name
            assert command.code != 0, frame.name
            continue
        for name, value in command.ext_fields.items():
            if name in again:
                assert again[name] == value, f"{frame.name}: {name}"
            else:
                unread[name] += 1
    assert set(unread) == HOOK_FIELDS


def test_every_typed_body_is_read_and_written_back(golden_frames):
    kinds, exact, all_of = Counter(), Counter(), Counter()
    for frame in golden_frames:
        if not frame.body or frame.request_code == CUT_POP_CODE:
            continue
        rpc = RPC[frame.request_code]
        body = rpc.response_body_type if frame.is_response else rpc.request_body_type
        if body is None:
            kind = rpc.response_body if frame.is_response else rpc.request_body
            assert kind in BODY_KINDS, frame.name
            kinds[kind] += 1
            continue
        again = body.from_bytes(frame.body).to_bytes()
        key = frame.request_code, frame.is_response
        all_of[key] += 1
        exact[key] += again == frame.body
        if again != frame.body:
            before, after = java_json.loads(frame.body), java_json.loads(again)
            if frame.request_code == 105:  # asked for by an old version: integer keys
                assert body.from_bytes(frame.body).to_bytes(standard_json=False) == frame.body
                continue
            assert includes(after, before), frame.name
    assert set(kinds) == set(BODY_KINDS)
    assert sum(all_of.values()) == 1451
    assert sum(exact.values()) >= 1300


def includes(after, before):
    """Whether nothing is lost: our writer adds the defaults of fields other releases lack.

    Java sets have no order; Go writes numbers of sets as text, Node leaves nulls.
    """
    if isinstance(before, dict):
        return all(
            (name in after and includes(after[name], item)) or item is None
            for name, item in before.items()
        )
    if isinstance(before, list) and all(isinstance(item, str | int) for item in before):
        return sorted(map(str, before)) == sorted(map(str, after))
    if isinstance(before, list):
        return len(after) == len(before) and all(map(includes, after, before))
    return after == before


def test_an_unknown_field_survives_in_every_json_body(sample_frames):
    seen = 0
    for frame in sample_frames:
        rpc = RPC.get(frame.request_code)
        body = rpc and (rpc.response_body_type if frame.is_response else rpc.request_body_type)
        if not body or not frame.body.startswith(b'{"'):
            continue
        seen += 1
        data = b'{"zzFuture":{"a":[1,null,"x"]},' + frame.body[1:]
        again = java_json.loads(body.from_bytes(data).to_bytes())
        assert again["zzFuture"] == {"a": [1, None, "x"]}, frame.name
    assert seen > 40


def test_damaged_ext_fields_end_in_a_header_or_a_named_field(sample_frames):
    for frame in sample_frames:
        rpc = RPC.get(frame.request_code)
        header = rpc and (
            rpc.response_header_type if frame.is_response else rpc.request_header_type
        )
        if not header:
            continue
        ext = decode_one(frame).ext_fields
        for name in ext:
            others = {n: v for n, v in ext.items() if n != name}
            for value in ("", "x", "-1", "true", "9" * 30, "1.5", "null", "\x00", "½", "1_0"):
                check_header(header, {**others, name: value})
            check_header(header, others)


def check_header(header, ext):
    try:
        value = decode_header_fields(header, ext)
    except RemoteProtocolError as err:
        message = err.message
    else:
        assert decode_header_fields(header, encode_header_fields(value)) == value
        return
    assert re.search(r"field \w+ \(\w+\) is ", message), message


def test_damaged_bodies_end_in_a_value_or_a_precise_error(sample_frames, survives):
    for frame in sample_frames:
        rpc = RPC.get(frame.request_code)
        body = rpc and (rpc.response_body_type if frame.is_response else rpc.request_body_type)
        if body and frame.body:
            survives(body.from_bytes, frame.body, tries=40)
