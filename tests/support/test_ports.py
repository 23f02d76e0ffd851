"""Ports of programs are never those that the kernel chooses."""

import subprocess
import sys

from tests.support import ports


def test_a_port_lies_below_the_range_of_the_kernel_and_is_given_once() -> None:
    given = [ports.free_port() for _ in range(20)]
    assert len(set(given)) == len(given)
    assert max(given) + 1 < ports.ephemeral_start()


def test_another_process_does_not_get_the_same_block() -> None:
    block = ports.free_port() - 2
    code = f"from tests.support import ports; print(ports.take_block({block}))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout == "False\n"
