"""``mqadmin java NAME`` and ``mqadmin NAME``: the sub-commands of RocketMQ's Java tool.

Duty
    Accept Java's names (in any case), its short and long options, and print its columns, so that
    scripts written for the Java tool keep working. The exit statuses are those of this project:
    the Java tool exits with 0 after most failures.

Theory of operation
    ``names`` is the table of the names: the module that declares a command, the equivalent of noun
    and verb, and the options. ``lookup`` parses a command line against it and imports one module.
    ``declare`` registers the functions of the commands; ``call`` is their argument: the options
    with types, and the printer. The library calls are those of the nouns (``mqadmin.admin``).
    The commands about topics, brokers, clusters and name servers are in ``cluster``.

Differences from the Java tool
    Names are never cut at the width of a column. Changes run without a question, as in Java, but a
    command that Java would apply to every cluster is refused unless a target is given, and a change
    keeps the fields that the command line does not name.

**Source:** RocketMQ ``org.apache.rocketmq.tools.command``.
"""
