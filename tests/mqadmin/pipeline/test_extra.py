"""Without the extra ``spark`` most pipeline tests are not collected: this test reports that."""

import importlib.util
import os

import pytest


def test_the_extra_is_installed() -> None:
    if importlib.util.find_spec("pyspark") is not None:
        return
    reason = "the extra spark is not installed (scripts/test --spark): no pipeline tests"
    if os.environ.get("MQ_PEERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)
