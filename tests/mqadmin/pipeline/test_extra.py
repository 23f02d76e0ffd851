"""Without the extra nothing of the pipeline can be tested, and that must not go unnoticed."""

import importlib.util

import pytest


def test_the_extra_is_installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("the extra spark is not installed (scripts/test --spark): no pipeline tests")
