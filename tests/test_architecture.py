"""Rules of the source tree: import direction, cycles, purity, sizes, mirrored tests, language.

Two kinds of rules. Fixed ones hold everywhere (who may import whom). Ceilings are for what is
still being reduced: tests/architecture.toml has a number per package, a package may not exceed
its number, and numbers only get smaller. After an improvement

    scripts/check --tighten

lowers every ceiling to the present value; it never raises one. A package without a number of its
own counts towards the nearest package above it, so that moving modules into a new package changes
nothing, and a package outside all of them has the ceiling 0.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("broker", "mqadmin")
TOP_LEVEL = {"pyproject.toml", "broker", "mqadmin", "tests", "scripts", "man", "README.md"}
CEILINGS = ROOT / "tests" / "architecture.toml"

MODULE_LINES = 600
FUNCTION_LINES = 70
PACKAGE_MODULES = 12
TEST_RATIO = 1.0
POSITIONAL_PARAMETERS = 6  # self and five more

# Modules that are one declared table each: long by nature, nothing to split.
TABLES = {
    "broker/remoting/protocol/rpc.py",
    "broker/remoting/protocol/codes.py",
    "broker/server/configuration/config.py",
}

CORE = {"broker", "broker.errors", "broker.common", "broker.message", "broker.filter"}
WIRE = {"broker.remoting", "broker.remoting.protocol"}
VALUES = {"broker.errors", "broker.common", "broker.message"}

# Layer -> layers it may import besides itself. The longest prefix decides the layer of a module.
# An import of any kind counts: at module level, inside a function, under TYPE_CHECKING.
MAY_IMPORT: dict[str, set[str]] = {
    "broker": set(),
    "broker.errors": set(),
    "broker.common": {"broker.errors"},
    "broker.message": {"broker.errors", "broker.common"},
    "broker.filter": VALUES,
    # Where the machine code of compiled loops is kept: for every package that has such loops.
    "broker.machine_code": set(),
    "broker.remoting.protocol": VALUES,
    "broker.remoting": CORE | {"broker.remoting.protocol"},
    "broker.store.format": VALUES | {"broker.machine_code"},
    "broker.store.results": VALUES,
    "broker.store.logfile": VALUES | {"broker.store.format"},
    "broker.store.consumequeue": CORE
    | {"broker.store.format", "broker.store.logfile", "broker.store.results"},
    "broker.store.index": CORE
    | {"broker.store.format", "broker.store.logfile", "broker.store.consumequeue"},
    # Recovery replays the log through the dispatcher: it works on the engine, not below it.
    "broker.store.recovery": CORE
    | {
        "broker.store",
        "broker.store.consumequeue",
        "broker.store.format",
        "broker.store.index",
        "broker.store.logfile",
        "broker.store.results",
    },
    # The timers append to the log and read its records: they work on the engine, not below it.
    "broker.store.timer": CORE
    | {"broker.store", "broker.store.format", "broker.store.logfile", "broker.store.results"},
    "broker.store": CORE
    | {
        "broker.machine_code",
        "broker.store.consumequeue",
        "broker.store.format",
        "broker.store.index",
        "broker.store.logfile",
        "broker.store.recovery",
        "broker.store.results",
    },
    # The roles never import each other: they meet on the wire.
    "broker.namesrv": CORE | WIRE,
    "broker.client": CORE | WIRE,
    "broker.server": CORE
    | WIRE
    | {
        "broker.machine_code",
        "broker.store",
        "broker.store.format",
        "broker.store.logfile",
        "broker.store.results",
        "broker.store.timer",
    },
    # The embedded default: the one place where both roles are put into one process.
    "broker.server.standalone": CORE
    | WIRE
    | {"broker.server", "broker.namesrv", "broker.store", "broker.store.logfile"},
    # Chooses between the two: one role, or both in one process.
    "broker.server.startup": CORE
    | {"broker.server", "broker.server.standalone", "broker.remoting", "broker.store"},
    # Fixtures for the tests of other projects: a broker and its clients in one process.
    "broker.testing": CORE | WIRE | {"broker.client", "broker.server", "broker.server.standalone"},
    "broker.__main__": {
        "broker",
        "broker.namesrv",
        "broker.namesrv.startup",
        "broker.server",
        "broker.server.startup",
    },
    "mqadmin": {"broker"},
    "mqadmin.output": {"mqadmin.safe_text"},
    # Text of messages made safe: one for the printer and for exports written to files.
    "mqadmin.safe_text": {"broker.common"},
    # The shape of a message for people and programs: one for the online and the offline library.
    "mqadmin.message_row": {"broker.message"},
    # Messages of system topics as rows: one declaration for the online and the offline library.
    "mqadmin.system_topics": VALUES,
    "mqadmin.transaction_row": {"broker.message"},
    "mqadmin.settings": {"broker.common", "broker.errors"},
    # The kinds of errors in records and messages: one for the online library and the commands.
    "mqadmin.error_kind": {"broker.errors", "broker.remoting.protocol"},
    "mqadmin.inspector": CORE
    | {
        "broker.remoting.protocol",
        "broker.store.format",
        "mqadmin.message_row",
        "mqadmin.safe_text",
        "mqadmin.system_topics",
        "mqadmin.transaction_row",
    },
    # The one offline package that writes, and only into a directory given for the output.
    "mqadmin.repair": CORE
    | {
        "broker.store.format",
        "mqadmin.inspector",
        "mqadmin.message_row",
        "mqadmin.system_topics",
    },
    "mqadmin.pipeline": CORE | {"broker.store.format", "mqadmin.inspector", "mqadmin.message_row"},
    # Messages in bulk: drives the client, and reads what the online library reads.
    "mqadmin.traffic": CORE | WIRE | {"broker.client", "mqadmin.admin", "mqadmin.message_row"},
    "mqadmin.admin": CORE
    | WIRE
    | {
        "broker.client",
        "mqadmin.error_kind",
        "mqadmin.message_row",
        "mqadmin.system_topics",
        "mqadmin.transaction_row",
    },
    "mqadmin.command": CORE
    | {
        "broker.store.format",
        "mqadmin",
        "mqadmin.admin",
        "mqadmin.error_kind",
        "mqadmin.inspector",
        "mqadmin.message_row",
        "mqadmin.output",
        "mqadmin.pipeline",
        "mqadmin.repair",
        "mqadmin.settings",
        "mqadmin.system_topics",
        "mqadmin.traffic",
        "mqadmin.transaction_row",
    },
    "mqadmin.app": CORE | {"mqadmin", "mqadmin.command", "mqadmin.output", "mqadmin.settings"},
    "mqadmin.__main__": CORE
    | {"mqadmin", "mqadmin.app", "mqadmin.command", "mqadmin.output", "mqadmin.settings"},
}

# (importing module, imported module) that break MAY_IMPORT today. Only deletions.
IMPORT_EXCEPTIONS: set[tuple[str, str]] = set()

# package -> top-level modules that it never imports
PURE = {"asyncio", "socket", "mmap", "os", "io", "time", "random", "threading", "pathlib", "shutil"}
FOREIGN_TO_CORE = {"typer", "click", "rich", "tabulate", "httpx", "pyspark", "mqadmin"}
# The one module of the core that reads over HTTP; it is imported for such addresses only.
READS_HTTP = "broker.remoting.rpc.address_server"
NEVER: dict[str, set[str]] = {
    "broker": FOREIGN_TO_CORE,
    "broker.message": PURE,
    "broker.filter": PURE,
    "broker.remoting.protocol": PURE,
    "broker.store.format": PURE,
    "broker.store": {"socket"},
    "mqadmin.output": {"broker", "socket"},
    "mqadmin.inspector": {"typer", "rich", "socket", "asyncio"},
    "mqadmin.repair": {"typer", "rich", "socket", "asyncio"},
    "mqadmin.pipeline": {"typer", "rich"},
    "mqadmin.admin": {"typer", "rich", "tabulate", "asyncio"},
    "mqadmin.traffic": {"typer", "rich", "tabulate", "socket"},
    "mqadmin.command": {"socket", "struct", "mmap"},
}

# Phrases that plain technical English has a standard term for. A word may be right in its plain
# sense (a consumer lags behind): the ceilings leave room for that, the aim is few, not none.
PHRASES = {
    "what as a relative pronoun": (
        r"\b(?:of|for|from|with|by|in|at|on|is|are|as|to|and|but|knows?|than|about|into|reads?"
        r"|keeps?|takes?|gives?|writes?|holds?|needs?) what (?:is|was|are|were|has|had|it|they"
        r"|comes?|came|stands?|a|the|one|can|follows|an|its|nobody|he|we)\b"
        r"|\bWhat (?:is|was|are|were|has|had|a|the|it|they|one|comes?|can|this|an?)\b(?![^.\n]*\?)"
        r"|\bwhat (?:is|was) not\b|\bwhat (?:stands|comes|came|has|had|can|was|were) "
    ),
    "things that speak": r"\b(?:says?|said|saying|tells?|told|telling)\b",
    "things that stand": r"\bstands?\b|\bstood\b|\bstanding\b",
    "behind for after": r"\bbehind (?:the (?:end|last|log|record|file)|it|that|them|an?)\b",
    "is no for is not": (
        r"(?<!here )\b(?:is|are|was|were) no (?!more|longer|such|less|later|greater|larger"
        r"|newer|older|other)\w+"
    ),
    "goes on, anew, begun": (
        r"\b(?:goes|went|go) on\b|\banew\b|\bbegun\b|\bbegins? (?:again|with)\b"
    ),
    "nobody, whoever": r"\bnothing there\b|\bwhoever\b|\bnobody\b|\bfor who\b|\beverybody\b",
    "metaphors": (
        r"\b(?:house|surgery|sisters?|twins?|witness(?:es)?|waiting room|grave|rooms|front door"
        r"|upkeep|heals?|healed|healing|mends?|mended|reborn|judged?|judges|gets over|walks? over"
        r"|lone|(?<!dead.)letters|damages)\b"
    ),
    "turned away, an index lies": (
        r"\bturned away\b|\blies\b|\bof its own\b|\b(?:seen|see) to\b|\bhand(?:s|ed)? out\b"
        r"|\bcame first\b"
    ),
    "parked or held pulls": r"\bparked?\b|\bheld pulls?\b|\bholds? a pull\b",
}

# Further patterns, counted apart: PHRASES has ceilings from before they were known.
WORDING = {
    "what outside of questions": r"\b[Ww]hat\b(?![^.\n]*\?)",
    "things that speak or know": (
        r"\b(?:speaks? for|talks?|whispers?|is (?:told|known) of|knows? nothing|asks? nobody"
        r"|answers? nobody|learns?|hears?|heard|believes?|believed|promised?|promises)\b"
    ),
    "people for programs": r"\b(?:somebody|someone|anybody|stranger|whom|who)\b",
    "quaint verbs": (
        r"\b(?:settles?|settled|spoils?|spoilt|hurts?|hurt|travels?|goes along|take[ns]? along"
        r"|gives? way|lets? go|looks? at it|leads? back|comes? back|gone on|made up|as it was)\b"
    ),
    "worth, good news": r"\b(?:worth|good news|rubbish|sense of|no sense|all the same|beside)\b",
}

# Words in the names of functions, variables and tests that have a standard term.
NAME_WORDS = (
    r"\b(?:what|nobody|everybody|whoever|somebody|told|tells?|says?|said|speaks?|stands?"
    r"|anew|begun|park|parked|damages|judge[ds]?|settles?|settled|heal|heals|mend|mends|surgery"
    r"|upkeep|sisters?|twins?|lone|witness|goes on|go on|(?:is|are|was|were) no"
    r"|(?<!dead )letters|from afar)\b"
)
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*_\w*\b|\b[a-z]+\b(?= = | in |\()")

# Identifiers that have been renamed to the terms of RocketMQ; they do not come back.
RENAMED = (
    r"\b(?:QueueCheck|QueueOrder|QueueEnds|demand_reading|IndexHealing|IndexProof|ColumnLane"
    r"|MessageInner|look_message|HeldPull|PullHold|why_no_batch|make_room|secure_queues"
    r"|emit_thing|carry_out|ConsumeQueueTable|QueueLocks|DelayQueues|Misfits?|LetterRow"
    r"|drop_unproven|_leap|_quickly|_tell_\w+|tell_mended|_?MOST_[A-Z_]+|draw_thing|settle_removed"
    r"|place_again|NothingFound|test_house)\b"
)

# Modules that other modules import inside functions, and why (ms: time of the import on a machine
# where the bare interpreter starts in 12 ms). An entry applies to the modules below it, too.
LOCAL_IMPORTS: dict[str, str] = {
    # standard library: a command that needs none of them starts in 60 ms
    "datetime": "4 ms; most commands print no time zone",
    "fcntl": "missing on Windows: locks are then not supported",
    "ipaddress": "18 ms; only for IPv6 addresses and lists of networks",
    "json": "5 ms; only for text that msgspec refuses",
    "ssl": "37 ms; only for TLS connections",
    "tomllib": "7 ms; only with a configuration file",
    # libraries
    "backports": "extra zstd; the standard library has it from Python 3.14 on",
    "compression": "standard library from Python 3.14 on",
    "javaproperties": "165 ms; only where a properties file is read",
    "lz4.frame": "extra; only for messages compressed with it",
    "matplotlib": "extra, 500 ms; only with --plot",
    "msgspec": "33 ms; an error as text does not need it",
    "numpy": "90 to 210 ms; a command that reads a few records needs none of it",
    "pyarrow": "extra, 150 ms; only for Parquet",
    "uvloop": "extra; the daemons run without it, too",
    # own modules that need one of the above
    "broker.common.encoding.java_json": "8 ms; only for headers that msgspec cannot decode",
    "broker.common.encoding.java_json_reader": "11 ms; only for text that is not valid JSON",
    "broker.common.config.properties": "imports javaproperties",
    "broker.common.text": "2 to 15 ms; only where a file is read as text",
    "broker.common.topic": "43 ms; command lines with a topic name only",
    "broker.filter.sql92": "7 ms; most brokers get no SQL92 subscription",
    "broker.remoting.protocol.body.base": "28 ms; loaded with the first body type",
    "broker.remoting.process.log_file": "imports logging.handlers; only with --log-dir",
    "broker.store.format.vectorized": "imports numpy, and numba if it is installed (460 ms)",
    "broker.store.recovery.runs.vectorized_dispatcher": "imports numpy; only for long scans",
    "mqadmin.inspector.export.arrow": "imports pyarrow",
    "mqadmin.inspector.verify.vectorized": "imports numpy; only where it is installed",
    "mqadmin.output.forms": "20 to 110 ms; only with -o yaml, csv, markdown",
    "mqadmin.output.emit": "30 ms; commands that fail or print nothing do not need it",
    "mqadmin.output.schema": "only with -o schema",
    "mqadmin.output.terminal": "58 ms; only on a terminal (rich)",
    "mqadmin.pipeline": "Spark: an extra, and a second to import",
    "mqadmin.repair.derived_files.build_columns": "imports numpy",
    "mqadmin.safe_text": "41 ms (msgspec); an error as text does not need it",
}

# Modules that decide which others a run loads: the only ones that import whole layers locally.
SEAMS: dict[str, str] = {
    "broker.__main__": "the program, once SIGINT ends the process without a traceback",
    "broker.namesrv.startup": "usage errors, --print-config: without the server",
    "broker.server.startup": "the role of the process; usage errors, --print-config: without it",
    "mqadmin.app": "parser of the command line, completion or --version",
    "mqadmin.command.execution.online": "the library of a noun, when its command runs",
    "mqadmin.command.execution.session": "the rows of all libraries, for -o schema and -o csv",
    "mqadmin.command.framework.completion": "names of a cluster, only where one is completed",
}

# Functions that take the name of a member, possibly with its module: "broker.module._name".
BY_NAME = {"setattr", "delattr", "getattr", "object", "patch"}

# Names with an underscore of named tuples, os, PySpark and Py4J: documented, or nothing else there.
FOREIGN_MEMBERS = {
    "_asdict",
    "_exit",
    "_fields",
    "_getframe",
    "_jvm",
    "_make",
    "_replace",
    "_stackTrace",
}

# Constructions that hide an import or a type from the checker.
EVASIONS = (
    r"\bhasattr\(|\b__mro__\[|\bsys\.modules\[[^]]+\] = |^def __getattr__\("
    r"|^\s+raise NotImplementedError\b|^    import_module\("
)


class Import(NamedTuple):
    """An import statement of one module."""

    line: int
    name: str  # the module named, at any depth
    local: bool  # inside a function


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def package_of(path: Path) -> str:
    return str(path.parent.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def layer_of(module: str) -> str:
    parts = module.split(".")
    while parts:
        name = ".".join(parts)
        if name in MAY_IMPORT:
            return name
        parts.pop()
    return ""


def is_module(name: str) -> bool:
    file = ROOT / Path(*name.split("."))
    return file.with_suffix(".py").exists() or (file / "__init__.py").exists()


@cache
def imports(path: Path) -> list[Import]:
    """Every import of a module; `from package import module` names the module."""
    own = module_name(path)
    package = own if path.name == "__init__.py" else own.rpartition(".")[0]
    inner = {id(child) for function in functions(path) for child in ast.walk(function)}
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                stem = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*stem, base] if base else stem)
            names = [base]
            if base.split(".")[0] in PACKAGES:
                deeper = [f"{base}.{alias.name}" for alias in node.names]
                names = sorted({name if is_module(name) else base for name in deeper})
        else:
            continue
        found += [Import(node.lineno, name, id(node) in inner) for name in names]
    return found


def cycles() -> list[set[str]]:
    """The groups of modules that reach each other by imports of any kind (Tarjan)."""
    known = {module_name(path) for path in sources()}
    graph = {
        module_name(path): sorted(
            {one.name for one in imports(path) if one.name in known} - {module_name(path)}
        )
        for path in sources()
    }
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[set[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in graph[module]:
            if target not in index:
                visit(target)
            if target in stack:
                low[module] = min(low[module], low[target])
        if low[module] == index[module]:
            at = stack.index(module)
            group = set(stack[at:])
            del stack[at:]
            if len(group) > 1:
                groups.append(group)

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return groups


def import_violations() -> list[tuple[str, str, str]]:
    """(place, importing module, imported module) of every import that MAY_IMPORT does not allow."""
    wrong = []
    for path in sources():
        layer = layer_of(module_name(path))
        wrong += [
            (f"{path.relative_to(ROOT)}:{one.line}", module_name(path), one.name)
            for one in imports(path)
            if one.name.split(".")[0] in PACKAGES
            and layer_of(one.name) not in MAY_IMPORT[layer] | {layer}
        ]
    return wrong


# ---- measures with ceilings: package -> number


def local_imports() -> Counter[str]:
    """Imports inside functions, except those of the SEAMS, which grow with each noun."""
    found: Counter[str] = Counter()
    for path in sources():
        if module_name(path) not in SEAMS:
            found[package_of(path)] += sum(one.local for one in imports(path))
    return found


def large_packages() -> Counter[str]:
    modules = Counter(package_of(path) for path in sources() if path.name != "__init__.py")
    return Counter({name: count for name, count in modules.items() if count > PACKAGE_MODULES})


def long_functions() -> Counter[str]:
    """Functions that do not fit a screen; parameters and docstring count.

    A command with many options declares them in a class (``Options`` of
    mqadmin/command/framework/declare.py), so that its function is the work.
    """
    found: Counter[str] = Counter()
    for path in sources():
        found[package_of(path)] += sum(
            (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
            for node in functions(path)
        )
    return found


def untested_modules() -> Counter[str]:
    """Modules without a test file of their name in the mirrored folder."""
    missing: Counter[str] = Counter()
    for path in sources():
        folder = ROOT / "tests" / package_of(path)
        if path.stem in ("__init__", "__main__") or (folder / f"test_{path.stem}.py").exists():
            continue
        if not list(folder.glob(f"test_{path.stem}_*.py")):
            missing[package_of(path)] += 1
    return missing


def evasions() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in sources():
        found[package_of(path)] += len(re.findall(EVASIONS, path.read_text("utf-8"), re.MULTILINE))
    return found


def texts() -> Iterator[tuple[str, Path]]:
    """(package, file) of every text that people read: sources, scripts, tests, documents."""
    for path in sources():
        yield package_of(path), path
    for folder in ("scripts", "man", ".github", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT).parts
            if path.is_file() and "golden" not in inside and "__pycache__" not in inside:
                yield package_of(path), path
    yield "README.md", ROOT / "README.md"


def phrases() -> Counter[str]:
    found: Counter[str] = Counter()
    for package, path in texts():
        if path in (Path(__file__), CEILINGS):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found[package] += sum(len(re.findall(pattern, text)) for pattern in PHRASES.values())
    return found


def wording() -> Counter[str]:
    found: Counter[str] = Counter()
    for package, path in texts():
        if path in (Path(__file__), CEILINGS):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found[package] += sum(len(re.findall(pattern, text)) for pattern in WORDING.values())
    return found


def identifiers() -> Counter[str]:
    """Names in Python files with one of NAME_WORDS, each counted once per file."""
    found: Counter[str] = Counter()
    for package, path in texts():
        if path.suffix != ".py" or path == Path(__file__):
            continue
        names = set(IDENTIFIER.findall(path.read_text(encoding="utf-8", errors="replace")))
        found[package] += sum(
            re.search(NAME_WORDS, name.strip("_").replace("_", " ")) is not None for name in names
        )
    return found


def private_names(node: ast.AST) -> list[str]:
    """The names with one leading underscore that a node of a test uses on another object."""
    if isinstance(node, ast.Attribute):
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        names = [] if own else [node.attr]
    elif isinstance(node, ast.ImportFrom):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Call):
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        own = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == "self"
        names = [
            text.rpartition(".")[2]
            for text in texts
            if called in BY_NAME and not own and isinstance(text, str)
        ]
    else:
        names = []
    return [name for name in names if re.fullmatch(r"_[A-Za-z]\w*", name)]


def private_members() -> Counter[str]:
    """Uses of private members of other objects in tests, also by name (``monkeypatch.setattr``)."""
    found: Counter[str] = Counter()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            found[package_of(path)] += len(set(private_names(node)) - FOREIGN_MEMBERS)
    return found


# table of tests/architecture.toml -> (the measure, one line about it)
MEASURES: dict[str, tuple[Callable[[], Counter[str]], str]] = {
    "local_imports": (local_imports, "import statements inside functions"),
    "large_packages": (large_packages, f"modules of packages with more than {PACKAGE_MODULES}"),
    "long_functions": (long_functions, f"functions of more than {FUNCTION_LINES} lines"),
    "untested_modules": (untested_modules, "modules without a test file of their name"),
    "evasions": (evasions, "hasattr, module __getattr__, NotImplementedError and the like"),
    "phrases": (phrases, "phrases that have a standard term (PHRASES)"),
    "wording": (wording, "further phrases that have a standard term (WORDING)"),
    "private_members": (private_members, "private members of other objects that tests use"),
    "identifiers": (identifiers, "names with a word that has a standard term (NAME_WORDS)"),
}


def by_ceiling(measured: Counter[str], ceilings: dict[str, int]) -> Counter[str]:
    """Add up what was measured by the nearest package that has a ceiling."""
    sums: Counter[str] = Counter()
    for package, number in measured.items():
        names = [package, *map(str, Path(package).parents)]
        sums[next((name for name in names if name in ceilings), package)] += number
    return sums


def read_ceilings() -> dict[str, dict[str, int]]:
    return tomllib.loads(CEILINGS.read_text(encoding="utf-8")) if CEILINGS.exists() else {}


@pytest.mark.parametrize("measure", MEASURES)
def test_no_package_exceeds_its_ceiling(measure: str) -> None:
    ceilings = read_ceilings()[measure]
    over = {
        package: f"{number}, ceiling {ceilings.get(package, 0)}"
        for package, number in by_ceiling(MEASURES[measure][0](), ceilings).items()
        if number > ceilings.get(package, 0)
    }
    assert not over, f"{MEASURES[measure][1]}: {over}"


def test_top_level_contains_only_the_documented_entries() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: the files of the project cannot be listed")
    tops = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL


def test_imports_go_down_only() -> None:
    wrong = [
        f"{place}: {layer_of(module)} must not import {layer_of(name)}"
        for place, module, name in import_violations()
        if (module, name) not in IMPORT_EXCEPTIONS
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_do_not_import_modules_that_are_forbidden_to_them() -> None:
    wrong = []
    for path in sources():
        module = module_name(path)
        for package, banned in NEVER.items():
            if module != package and not module.startswith(package + "."):
                continue
            wrong += [
                f"{path.relative_to(ROOT)}:{one.line}: {package} must not import {one.name}"
                for one in imports(path)
                if one.name.split(".")[0] in banned and (module, one.name) != (READS_HTTP, "httpx")
            ]
    assert not wrong, "\n".join(wrong)


def test_an_import_inside_a_function_has_a_reason() -> None:
    """LOCAL_IMPORTS and SEAMS name each of them, and nothing that is not there."""
    wrong, used = [], set()
    for path in sources():
        module = module_name(path)
        for one in filter(lambda one: one.local, imports(path)):
            names = [one.name, *(one.name.rsplit(".", n)[0] for n in range(1, 6))]
            reason = next((name for name in names if name in LOCAL_IMPORTS), None)
            if reason is None and module in SEAMS:
                reason = module
            used.add(reason)
            if reason is None:
                wrong.append(f"{path.relative_to(ROOT)}:{one.line}: {one.name}")
    assert not wrong, "\n".join(wrong)
    assert not {*LOCAL_IMPORTS, *SEAMS} - used


def test_there_are_no_import_cycles_of_any_kind() -> None:
    """Imports inside functions and under TYPE_CHECKING count."""
    found = cycles()
    assert not found, "\n".join(" <-> ".join(sorted(group)) for group in found)


def test_rules_name_layers_that_exist() -> None:
    """A rule for a package that was renamed would allow everything."""
    named = {*MAY_IMPORT, *NEVER, *set().union(*MAY_IMPORT.values())}
    assert not sorted(name for name in named if not is_module(name))


def test_modules_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if (lines := path.read_text(encoding="utf-8").count("\n")) > MODULE_LINES
    }
    assert not {name: lines for name, lines in long.items() if name not in TABLES}


def test_functions_take_few_positional_parameters() -> None:
    """Exempt: commands (a parameter is an option there) and compiled loops (no keywords there)."""
    wide = []
    for path in sources():
        compiled = "compiled_loop import compiled_loop" in path.read_text(encoding="utf-8")
        if compiled or path.is_relative_to(ROOT / "mqadmin" / "command"):
            continue
        for node in functions(path):
            count = len(node.args.posonlyargs) + len(node.args.args)
            if count > POSITIONAL_PARAMETERS:
                wide.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {count}")
    assert not wide, "\n".join(wide)


def test_only_the_output_package_prints() -> None:
    wrong = []
    for path in sources():
        if path.is_relative_to(ROOT / "mqadmin" / "output"):
            continue
        for node in ast.walk(tree_of(path)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "print"
            ):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, wrong


def test_text_becomes_a_number_only_after_a_test_that_int_agrees_with() -> None:
    """``"²".isdigit()`` is true, and ``int("²")`` raises: ``isdecimal`` or ``parse_number``."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ".isdigit()" in line and "isascii()" not in line
    ]
    assert not wrong, wrong


def test_module_names_state_a_duty() -> None:
    vague = {"util", "utils", "helper", "helpers", "misc", "common_utils", "manager"}
    assert not [str(path) for path in sources() if path.stem in vague]


def test_modules_do_not_shadow_the_standard_library_at_the_top() -> None:
    tops = {path.stem for package in PACKAGES for path in (ROOT / package).glob("*.py")}
    assert not tops & set(sys.stdlib_module_names) - {"__init__", "__main__"}


def test_every_module_has_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources()
        if ast.get_docstring(tree_of(path)) is None
    ]
    assert not silent, silent


def test_renamed_identifiers_do_not_come_back() -> None:
    found = []
    for _, path in texts():
        if path in (Path(__file__), CEILINGS) or path.name == "CHANGELOG.md":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {name}" for name in set(re.findall(RENAMED, text))]
    assert not found, "\n".join(sorted(found))


def test_test_folders_are_not_packages() -> None:
    """A package tests/broker would shadow the real one; tests/support is imported by tests."""
    support = ROOT / "tests" / "support"
    inits = [p for p in (ROOT / "tests").rglob("__init__.py") if not p.is_relative_to(support)]
    assert inits in ([], [ROOT / "tests" / "__init__.py"]), inits


def test_every_source_folder_has_a_test_folder() -> None:
    """tests/ mirrors the source folder by folder."""
    missing = sorted(
        {
            package_of(path)
            for path in sources()
            if path.name != "__init__.py"
            and path.parent.name not in PACKAGES
            and not (ROOT / "tests" / package_of(path)).is_dir()
        }
    )
    assert not missing, missing


def test_tests_keep_up_with_the_source() -> None:
    """Lines of test per line of source."""
    source = sum(path.read_text(encoding="utf-8").count("\n") for path in sources())
    tests = sum(
        path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py")
    )
    assert tests >= source * TEST_RATIO, f"{tests} lines of test for {source} lines of source"


def tighten() -> int:
    """Lower every ceiling to the present value and name exceptions that are no longer needed."""
    before = read_ceilings()
    lines = [
        "# Ceilings of tests/test_architecture.py, package by package. Numbers only get smaller:"
    ]
    lines += ["# scripts/check --tighten writes this file and never raises one."]
    for table, (measure, meaning) in MEASURES.items():
        old = before.get(table)
        now = by_ceiling(measure(), old or {})
        lines += ["", f"# {meaning}", f"[{table}]"]
        for package in sorted(now if old is None else old):
            number = now[package] if old is None else min(now[package], old[package])
            if number or old is not None:
                lines.append(f'"{package}" = {number}')
            if old is not None and now[package] != old[package]:
                print(f"{table} {package}: {old[package]} -> {now[package]}")
    CEILINGS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    needed = {(module, name) for _, module, name in import_violations()}
    for pair in sorted(IMPORT_EXCEPTIONS - needed):
        print(f"delete from IMPORT_EXCEPTIONS: {' -> '.join(pair)}")
    return 0


if __name__ == "__main__":
    sys.exit(tighten())
