"""The public names: complete, and their documented examples run."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

import broker.client
from broker.client import ClientConfig, ConsumerConfig, ProducerConfig
from broker.server.standalone import BlockingEmbeddedBroker

OWN_MODULES_CEILING = 147  # modules of this project that a client imports
NOT_AT_START = {
    "backports",
    "dataclasses",
    "email",
    "http",
    "httpx",
    "ipaddress",
    "json",
    "logging.config",
    "logging.handlers",
    "lz4",
    "numpy",
    "pathlib",
    "prometheus_client",
    "urllib",
}

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as both:
        yield both.namesrv_address


def test_every_public_name_exists_and_has_a_docstring() -> None:
    names = broker.client.__all__
    assert sorted(names) == names
    for name in names:
        assert getattr(broker.client, name).__doc__, name


def modules() -> list[str]:
    found = pkgutil.walk_packages(broker.client.__path__, "broker.client.")
    return ["broker.client", *sorted(one.name for one in found)]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run(name: str, request: pytest.FixtureRequest) -> None:
    module = importlib.import_module(name)
    tests = [one for one in doctest.DocTestFinder().find(module) if one.examples]
    for test in tests:
        if any("namesrv" in example.source for example in test.examples):
            test.globs["namesrv"] = request.getfixturevalue("namesrv")
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        assert result.failed == 0, test.name


@pytest.mark.parametrize("settings", [ClientConfig, ProducerConfig, ConsumerConfig])
def test_every_setting_is_explained(settings: type[msgspec.Struct]) -> None:
    names = {field.name for field in msgspec.structs.fields(settings)}
    assert {name for name in names if f"``{name}``" not in (settings.__doc__ or "")} == set()


def test_every_class_names_its_java_source() -> None:
    for name in broker.client.__all__:
        found = getattr(broker.client, name)
        if inspect.isclass(found):
            texts = (found.__doc__, importlib.import_module(found.__module__).__doc__)
            assert any("**Source:**" in (text or "") for text in texts), name


def test_every_public_method_has_a_docstring() -> None:
    for name in broker.client.__all__:
        found = getattr(broker.client, name)
        for method, value in vars(found).items() if inspect.isclass(found) else ():
            if inspect.isfunction(value) and not method.startswith("_"):
                assert value.__doc__, f"{name}.{method}"


def loaded(code: str) -> set[str]:
    """Names of the modules that a new interpreter has loaded after ``code``."""
    words = [sys.executable, "-I", "-c", f"import sys; {code}; print(*sys.modules)"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import broker.client as c",
        "import broker.client as c; c.Producer('g', 'h:1')",
        "import broker.client as c; c.PushConsumer('g', 'h:1')",
    ],
    ids=["import", "producer", "push consumer"],
)
def test_a_client_loads_only_the_modules_that_it_needs(code: str) -> None:
    names = loaded(code) - loaded("import asyncio, msgspec")
    own = {name for name in names if name.split(".")[0] == "broker"}
    assert "broker.client" in own
    assert not {name for name in names if {name, name.split(".")[0]} & NOT_AT_START}
    assert len(own) <= OWN_MODULES_CEILING, sorted(own)
