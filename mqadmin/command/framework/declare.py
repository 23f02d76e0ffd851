"""Declaration of a command: a function whose annotations contain its options.

::

    NOUN = Noun("topic", "Create, inspect and delete topics.\n\nA topic is …")

    @NOUN.verb("list", view=TOPIC_LIST, examples=["mqadmin topic list"])
    def list_topics(
        session: Session,
        cluster: Annotated[str | None, Option("--cluster", help="Only this cluster.")] = None,
    ) -> None:
        \"\"\"List topics, one line per topic and broker.\"\"\"

The annotation is the whole declaration. It contains the type (``str``, ``int``, ``float``,
``bool`` for a flag, ``Literal`` for choices, ``list`` for a repeatable option, ``| None`` for an
optional one) and, as the marker, the names and the help. Typer, quick parser, completion and man
pages use the same :class:`Parameter` list. Annotations must be real objects: no
``from __future__ import annotations`` in command modules.

A command with many options declares them in a class, apart from the work (:class:`Options`)::

    class ListOptions(Options):
        cluster: Annotated[str | None, Option("--cluster", help="Only this cluster.")] = None

    def list_topics(session: Session, given: ListOptions) -> None:
"""

from collections.abc import Callable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from mqadmin.output.view import View


class Option:
    """Marker of an option: its names (``--read-queues``, ``-q``, ``--order/--no-order``).

    ``parse`` converts the text to the value and raises ``ValueError`` with the reason; ``env`` is
    the variable used when the option is absent (shown in help, resolved by the settings);
    ``complete`` is the source of completion candidates (``topic``, ``group``, ``broker``,
    ``context``, ``file``); ``shown`` is the default as typed, if it differs from the value;
    ``any_bytes`` is true for text that need not be UTF-8, such as paths.
    """

    __slots__ = (
        "any_bytes",
        "complete",
        "env",
        "help",
        "metavar",
        "names",
        "negative",
        "parse",
        "shown",
    )

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str = "",
        parse: Callable[[str], Any] | None = None,
        env: str = "",
        complete: str = "",
        shown: str = "",
        any_bytes: bool = False,
    ) -> None:
        plain: list[str] = []
        self.negative = ""
        for name in names:
            positive, _, negative = name.partition("/")
            plain.append(positive)
            self.negative = negative or self.negative
        self.names = tuple(plain)
        self.help = help
        self.metavar = metavar
        self.parse = parse
        self.env = env
        self.complete = complete
        self.shown = shown
        self.any_bytes = any_bytes or complete == "file"


class Argument:
    """Marker of a positional argument."""

    __slots__ = ("any_bytes", "complete", "help", "metavar", "parse")

    def __init__(
        self,
        metavar: str,
        *,
        help: str,
        parse: Callable[[str], Any] | None = None,
        complete: str = "",
    ) -> None:
        self.metavar = metavar
        self.help = help
        self.parse = parse
        self.complete = complete
        self.any_bytes = complete == "file"


class Options:
    """Base of a class whose fields are parameters of a command, in order.

    Fields are annotated as parameters of functions are; the value of a field in the class is its
    default. Not a dataclass or a struct: completion, which imports this module, would take twice
    as long.
    """

    def __init__(self, **values: Any) -> None:
        fields = _fields_of(type(self))
        unknown = values.keys() - {field.name for field in fields}
        missing = {field.name for field in fields if field.required} - values.keys()
        if unknown or missing:
            raise TypeError(f"{type(self).__name__}: {unknown=}, {missing=}")
        self.__dict__.update({field.name: field.default for field in fields} | values)


class Parameter:
    """One parameter of a command, resolved from its annotation.

    ``kind`` is ``str``, ``int``, ``float`` or ``bool``; ``choices`` the allowed words or ();
    ``multiple`` is true for a repeatable option or an argument that takes all remaining words;
    ``annotation`` is the type without the marker, for Typer.
    """

    __slots__ = (
        "annotation",
        "choices",
        "default",
        "kind",
        "marker",
        "multiple",
        "name",
        "required",
    )

    def __init__(self, name: str, annotation: Any, default: Any, *, required: bool) -> None:
        self.name = name
        self.default = default
        self.required = required
        self.annotation = annotation.__origin__
        self.marker: Option | Argument = annotation.__metadata__[0]
        bare = _without_none(self.annotation)
        self.multiple = get_origin(bare) is list
        if self.multiple:
            bare = get_args(bare)[0]
        self.choices: tuple[str, ...] = get_args(bare) if get_origin(bare) is Literal else ()
        self.kind: type = str if self.choices else bare

    @property
    def shown_default(self) -> str:
        """The default as shown in help and man pages, empty when there is none to show."""
        if self.default in (None, False, ""):
            return ""
        if isinstance(self.marker, Option):
            if self.marker.shown:
                return self.marker.shown
            if self.is_flag:  # the default of --links/--copies is --links
                return self.marker.names[-1]
        return str(self.default)

    @property
    def is_option(self) -> bool:
        """True for an option, False for an argument."""
        return isinstance(self.marker, Option)

    @property
    def is_flag(self) -> bool:
        """True for an option that takes no value."""
        return self.kind is bool

    def value(self, text: str) -> Any:
        """Convert the text of one occurrence to its value; ``ValueError`` contains the reason."""
        if self.marker.parse is not None:
            return self.marker.parse(text)
        if self.choices:
            if text not in self.choices:
                raise ValueError(f"{text!r} is not one of {', '.join(self.choices)}")
            return text
        return self.kind(text)

    def metavar(self) -> str:
        """Return the placeholder of the value in usage lines and help."""
        if self.marker.metavar:
            return self.marker.metavar
        if self.choices:
            return "|".join(self.choices)
        return {int: "N", float: "X"}.get(self.kind, "TEXT")


def _without_none(annotation: Any) -> Any:
    # ``str | None`` is a UnionType, ``Literal[…] | None`` a typing.Union
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        (annotation,) = (arm for arm in annotation.__args__ if arm is not type(None))
    return annotation


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the declared parameters of a command function, in order."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(function.__kwdefaults__ or {})
    positional = function.__defaults__ or ()
    if positional:
        defaults.update(zip(names[code.co_argcount - len(positional) :], positional, strict=False))
    found: list[Parameter] = []
    for name in names:
        annotation: Any = function.__annotations__.get(name)
        if get_origin(annotation) is Annotated:
            found.append(
                Parameter(name, annotation, defaults.get(name), required=name not in defaults)
            )
        elif _is_options(annotation):
            found += _fields_of(annotation)
    return tuple(found)


def _is_options(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Options)


def _fields_of(options: type[Options]) -> list[Parameter]:
    defaults = vars(options)
    return [
        Parameter(name, annotation, defaults.get(name), required=name not in defaults)
        for name, annotation in options.__annotations__.items()
    ]


class Verb:
    """One command: the words after the noun, the function, its outputs, worked examples.

    ``changes`` is true when the command changes something: only then ``--dry-run`` and ``--yes``
    apply, elsewhere ``--dry-run`` is refused. ``has_dry_run`` is false for one that changes
    without a plan. ``plans`` is true when the plan of the change can be written to a file
    (``--plan``). ``views`` are the possible outputs, the default one first.
    Without ``words`` the noun is the command: ``mqadmin apply FILE``.
    """

    __slots__ = (
        "_parameters",
        "changes",
        "examples",
        "function",
        "has_dry_run",
        "noun",
        "plans",
        "views",
        "words",
    )

    def __init__(
        self,
        noun: "Noun",
        words: str,
        function: Callable[..., None],
        views: tuple[View, ...],
        examples: tuple[str, ...],
        *,
        changes: bool,
        plans: bool = False,
        has_dry_run: bool = True,
    ) -> None:
        self.noun = noun
        self.plans = plans
        self.words = tuple(words.split())
        self.function = function
        self.views = views
        self.examples = examples
        self.changes = changes
        self.has_dry_run = changes and has_dry_run
        self._parameters: tuple[Parameter, ...] | None = None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the function, without the session."""
        if self._parameters is None:
            self._parameters = parameters_of(self.function)
        return self._parameters

    def run(self, session: Any, values: dict[str, Any]) -> None:
        """Call the function; ``values`` are those of :attr:`parameters`, by name."""
        others = dict(values)
        for name, annotation in self.function.__annotations__.items():
            if _is_options(annotation):
                fields = [field for field in annotation.__annotations__ if field in others]
                others[name] = annotation(**{field: others.pop(field) for field in fields})
        self.function(session, **others)

    @property
    def path(self) -> str:
        """The words as typed: ``topic list``."""
        return " ".join((self.noun.name, *self.words))

    @property
    def name(self) -> str:
        """The dotted name used in schema names: ``topic.list``."""
        return ".".join((self.noun.name, *self.words))

    @property
    def paragraphs(self) -> list[str]:
        """The docstring as paragraphs, each joined to one line."""
        return paragraphs(self.function.__doc__ or "")


class Noun:
    """A group of commands on one kind of object; ``text`` starts with a one-sentence summary."""

    __slots__ = ("name", "text", "verbs")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.verbs: dict[tuple[str, ...], Verb] = {}

    @property
    def paragraphs(self) -> list[str]:
        """The text as paragraphs; the first is the one-sentence summary."""
        return paragraphs(self.text)

    def verb(
        self,
        words: str,
        *,
        view: View | Sequence[View],
        examples: Sequence[str],
        changes: bool = False,
        plans: bool = False,
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Register the decorated function as the command ``noun words``."""
        views = (view,) if isinstance(view, View) else tuple(view)

        def register(function: Callable[..., None]) -> Callable[..., None]:
            verb = Verb(self, words, function, views, tuple(examples), changes=changes, plans=plans)
            self.verbs[verb.words] = verb
            return function

        return register

    def find(self, words: Sequence[str]) -> tuple[Verb, int] | None:
        """Return the verb that ``words`` start with and how many of them belong to it."""
        for count in (2, 1, 0):
            verb = self.verbs.get(tuple(words[:count]))
            if verb is not None and len(verb.words) == count:
                return verb, count
        return None


def paragraphs(text: str) -> list[str]:
    """Split a docstring at empty lines and join the lines of each paragraph."""
    blocks = (block.split() for block in text.strip().split("\n\n"))
    return [" ".join(words) for words in blocks if words]
