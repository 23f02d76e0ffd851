"""Fixtures for every test: a random generator with a printed seed, golden data, cutting tools."""

import importlib
import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.errors import ProtocolError
from broker.server.ingest.loader import is_forced

GOLDEN = Path(__file__).parent / "golden"
# The modules that take longest, longest first: parallel workers start with them, or one would run
# alone at the end. Used with --no-loadscope-reorder, which keeps the order of the collection.
LONGEST = (
    "interop/test_timers.py",
    "interop/test_pop.py",
    "interop/test_client_pop.py",
    "interop/test_client.py",
    "interop/test_our_cli_on_java.py",
    "interop/test_java_mqadmin.py",
    "interop/test_clients.py",
    "interop/test_failover.py",
    "mqadmin/command/test_robustness.py",
    "mqadmin/command/test_schemas.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=None,
        help="seed of the random tests; a failing test prints the one it used",
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores it, and so would the commands that tests interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--seed") is None:
        worker_input = getattr(config, "workerinput", None)
        seed = worker_input["seed"] if worker_input else first_seed()
        config.option.seed = seed
    if is_forced():
        # Before a test simulates threads, clock or disk: brokers then find the code in memory, and
        # those in other processes find it in the cache.
        code_cache = importlib.import_module("broker.machine_code.code_cache")
        code_cache.use_folder(code_cache.open_folder().path)
        importlib.import_module("broker.server.ingest.warm_up").load()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest modules."""
    folder = Path(__file__).parent
    places = {folder / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


def first_seed() -> int:
    """MQ_SEED, else a new one."""
    return int(os.environ.get("MQ_SEED") or random.SystemRandom().randrange(1 << 32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.getoption('--seed')} (replay with --seed)"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Give parallel workers the seed of the main process."""
    node.workerinput["seed"] = node.config.getoption("--seed")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A generator per test; the seed is in the output of a failing one."""
    seed = request.config.getoption("--seed")
    print(f"replay with --seed {seed}")
    return random.Random(f"{seed}:{request.node.nodeid}")


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden data."""
    return GOLDEN


@pytest.fixture(scope="session")
def vectors() -> dict:
    """tests/golden/vectors.json: structures as real RocketMQ classes write them."""
    return json.loads((GOLDEN / "vectors.json").read_text(encoding="utf-8"))


@pytest.fixture
def every_cut() -> Callable[..., list[int]]:
    """``every_cut(decode, data)``: decode every proper prefix of ``data``.

    Each must give a value or a ProtocolError; anything else fails the test. Returns the lengths
    that gave a value.
    """

    def run(decode: Callable[[bytes], object], data: bytes) -> list[int]:
        accepted = []
        for length in range(len(data)):
            try:
                decode(data[:length])
            except ProtocolError:
                continue
            accepted.append(length)
        return accepted

    return run


@pytest.fixture
def every_flip() -> Callable[..., int]:
    """``every_flip(decode, data)``: decode ``data`` with each single bit turned over.

    Each must give a value or a ProtocolError. Returns how many gave a ProtocolError.
    """

    def flips(data: bytes) -> Iterator[bytes]:
        for position in range(len(data)):
            for bit in range(8):
                changed = bytearray(data)
                changed[position] ^= 1 << bit
                yield bytes(changed)

    def run(decode: Callable[[bytes], object], data: bytes) -> int:
        refused = 0
        for changed in flips(data):
            try:
                decode(changed)
            except ProtocolError:
                refused += 1
        return refused

    return run


@pytest.fixture(scope="session")
def golden_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``golden_store("normal-stop-533")``: a store that a Java broker wrote, unpacked.

    The folder holds ``store/`` (``master/``, ``slave/`` for the pairs) and ``broker.conf``. It is
    shared by the session and not to be changed; ``copy=True`` gives a folder of the test's own.
    """
    import tarfile

    shared: dict[str, Path] = {}

    def unpack(name: str, *, copy: bool = False) -> Path:
        if not copy and name in shared:
            return shared[name]
        folder = tmp_path_factory.mktemp(name)
        with tarfile.open(GOLDEN / "stores" / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        if not copy:
            shared[name] = folder
        return folder

    return unpack


@pytest.fixture(scope="session")
def golden_expect() -> Callable[[str], dict]:
    """``golden_expect("normal-stop-533")``: output of Java client and mqadmin for that store."""
    import lzma
    from functools import cache

    @cache
    def load(name: str) -> dict:
        return json.loads(lzma.open(GOLDEN / "stores" / f"{name}.expect.json.xz").read())

    return load
