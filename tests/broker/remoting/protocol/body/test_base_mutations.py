"""Each recorded body with one value of another type: decoded, or refused as invalid.

Bodies come from peers: any other exception would end the task that reads the connection, or be
reported as a defect of the server.
"""

import json
from typing import Any

import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.rpc import RPC, resolve
from tests.broker.remoting.protocol.conftest import GoldenFrame
from tests.support.json_mutations import failures, nodes

MAX_NODES = 60  # of a document: larger ones repeat the same objects


def body_type(frame: GoldenFrame) -> str:
    """The reference of the body's type in the RPC table, "" without one."""
    row = RPC.get(frame.request_code)
    if row is None or (frame.is_response and frame.recorded["code"] != ResponseCode.SUCCESS):
        return ""
    return row.response_body if frame.is_response else row.request_body


@pytest.fixture(scope="module")
def documents(golden_frames: list[GoldenFrame]) -> dict[str, Any]:
    """For each type of body the recorded standard JSON with the most values."""
    found: dict[str, tuple[int, Any]] = {}
    for frame in golden_frames:
        reference = body_type(frame)
        if ":" not in reference or not frame.body:
            continue
        try:
            document = json.loads(frame.body)
        except ValueError:
            continue  # object keys, as fastjson writes them
        count = sum(1 for _ in nodes(document))
        if found.get(reference, (0,))[0] < count <= MAX_NODES:
            found[reference] = (count, document)
    return {reference: document for reference, (_, document) in found.items()}


def test_a_body_with_a_value_of_another_type_is_decoded_or_refused(
    documents: dict[str, Any],
) -> None:
    assert len(documents) >= 25
    for reference, document in documents.items():
        kind = resolve(reference)

        def decode(changed: Any, kind: Any = kind) -> None:
            body = kind.from_bytes(json.dumps(changed).encode())
            assert kind.from_bytes(body.to_bytes()).to_bytes() == body.to_bytes()

        _, wrong = failures(decode, document, RemoteProtocolError)
        assert wrong == [], reference
