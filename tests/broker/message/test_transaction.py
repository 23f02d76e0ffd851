"""Bodies of op records of both releases."""

import pytest

from broker.message.transaction import decode_op_body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"17", [17]),
        (b"17,19,", [17, 19]),
        (b"0,1,5,6,10,", [0, 1, 5, 6, 10]),
        (b"", []),
        (b",,", []),
        (b"x,3,-4,99999999999999999999,", [3]),
    ],
)
def test_both_forms_of_op_bodies_are_read(body: bytes, expected: list[int]) -> None:
    assert decode_op_body(body) == expected
