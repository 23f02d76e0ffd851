"""Options of the data sources: paths, numbers, booleans."""

from pathlib import Path

import pytest

from broker.errors import ConfigError, StoreError
from mqadmin.pipeline.sources.options import expand_paths, option_number, option_paths, option_true


def test_paths_are_expanded_to_absolute_ones_without_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert expand_paths(["a", "./a", f"file://{a}", f"file:{a}"], "s") == [a]
    assert expand_paths(["*"], "s") == [a, b]
    assert option_paths({"path": "b", "paths": '["a", "b"]'}, "s") == [b, a]


def test_a_glob_without_a_match_and_a_url_are_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no file matches"):
        expand_paths([f"{tmp_path}/no*"], "s")
    for path in ("s3a://bucket/store", "hdfs://name/store/*"):
        with pytest.raises(ConfigError, match="through the file system") as raised:
            expand_paths([path], "rocketmq-store")
        assert path in raised.value.message
        assert "mount" in raised.value.hint


def test_numbers_and_booleans() -> None:
    assert option_number({"n": "7"}, "n") == 7
    assert option_number({}, "n") is None
    for text in ("x", "0", "1.5"):
        with pytest.raises(ConfigError, match="option n"):
            option_number({"n": text}, "n", minimum=1)
    assert option_true({"x": "True"}, "x")
    assert not option_true({"x": "no"}, "x", default=True)
    assert option_true({}, "x", default=True)
