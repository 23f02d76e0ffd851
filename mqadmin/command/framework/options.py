"""The global options, declared once; accepted before the noun and after the verb."""

from typing import Annotated, Any, Literal

from mqadmin.command.framework.declare import Option, Parameter, parameters_of
from mqadmin.command.framework.values import output_form

Namesrv = Annotated[
    str | None,
    Option(
        "-n",
        "--namesrv",
        metavar="ADDR[;ADDR]",
        env="NAMESRV_ADDR",
        help="Name servers; http://… discovers the list over HTTP. Default 127.0.0.1:9876.",
    ),
]
Context = Annotated[
    str | None,
    Option(
        "--context",
        metavar="NAME",
        env="MQADMIN_CONTEXT",
        help="Named settings; see 'mqadmin context'.",
        complete="context",
    ),
]
Output = Annotated[
    Literal["table", "wide", "json", "ndjson", "yaml", "csv", "markdown", "schema", "prometheus"]
    | None,
    Option(
        "-o",
        "--output",
        metavar="FORMAT",
        env="MQADMIN_OUTPUT",
        help="table (default), wide, json, ndjson, yaml, csv, markdown; jsonpath=EXPR prints the"
        " selected values of json; schema the JSON schema; prometheus is for check.",
        parse=output_form,
    ),
]
Timeout = Annotated[
    str | None,
    Option(
        "--timeout",
        metavar="DUR",
        env="MQADMIN_TIMEOUT",
        help="Total deadline of the command, default 10s.",
    ),
]
AddressMap = Annotated[
    str | None,
    Option(
        "--address-map",
        metavar="FROM=TO,…",
        env="MQADMIN_ADDRESS_MAP",
        help="Connect to TO instead of the advertised FROM (NAT, containers, tunnels).",
    ),
]
AccessKey = Annotated[
    str | None,
    Option(
        "--access-key",
        metavar="KEY",
        env="MQADMIN_ACCESS_KEY",
        help="Sign requests as this account.",
    ),
]
SecretKeyFile = Annotated[
    str | None,
    Option(
        "--secret-key-file",
        metavar="FILE",
        env="MQADMIN_SECRET_KEY_FILE",
        help="File with the account's secret; MQADMIN_SECRET_KEY contains the secret itself.",
        complete="file",
    ),
]
SecretKeyCommand = Annotated[
    str | None,
    Option(
        "--secret-key-command",
        metavar="COMMAND",
        env="MQADMIN_SECRET_KEY_COMMAND",
        help="Command that prints the account's secret (example: 'pass show mq/prod').",
    ),
]
ToolsYml = Annotated[
    str | None,
    Option(
        "--tools-yml",
        metavar="FILE",
        env="MQADMIN_TOOLS_YML",
        help="Account of Java's tool; default: $ROCKETMQ_HOME/conf/tools.yml, if it exists.",
        complete="file",
    ),
]
Tls = Annotated[bool, Option("--tls", env="MQADMIN_TLS", help="TLS to broker and name server.")]
TlsCa = Annotated[
    str | None,
    Option(
        "--tls-ca",
        metavar="FILE",
        env="MQADMIN_TLS_CA",
        help="Trusted certificates (PEM).",
        complete="file",
    ),
]
TlsCert = Annotated[
    str | None,
    Option(
        "--tls-cert",
        metavar="FILE",
        env="MQADMIN_TLS_CERT",
        help="Own certificate (PEM).",
        complete="file",
    ),
]
TlsKey = Annotated[
    str | None,
    Option(
        "--tls-key",
        metavar="FILE",
        env="MQADMIN_TLS_KEY",
        help="Key of --tls-cert (PEM).",
        complete="file",
    ),
]
DryRun = Annotated[
    bool,
    Option("--dry-run", env="MQADMIN_DRY_RUN", help="Show the plan of a change; change nothing."),
]
Yes = Annotated[
    bool, Option("-y", "--yes", help="Do not ask for confirmation; required without a terminal.")
]
YesContext = Annotated[
    str | None,
    Option(
        "--yes-context",
        metavar="CONTEXT",
        help="Confirm a change in this context; required if it is protected. Also --yes CONTEXT.",
        complete="context",
    ),
]
PlanFile = Annotated[
    str | None,
    Option(
        "--plan",
        metavar="FILE",
        help="Write the plan of a change to a new file; change nothing. 'mqadmin apply' runs it.",
        complete="file",
    ),
]
NoColor = Annotated[
    bool, Option("--no-color", env="NO_COLOR", help="No colour, not even on a terminal.")
]
Columns = Annotated[
    str | None,
    Option(
        "--columns",
        metavar="NAME,…",
        help="Fields of a list to print, in this order (table, wide, csv, markdown).",
    ),
]
NoHeaders = Annotated[
    bool, Option("--no-headers", help="Print a list without its headings (table, wide, csv).")
]
Sort = Annotated[
    str | None,
    Option(
        "--sort",
        metavar="FIELD[:desc]",
        help="Sort a list by a field; rows without a value are last.",
    ),
]
Verbose = Annotated[
    bool, Option("-v", "--verbose", help="Print each request and response on stderr.")
]


def global_options(
    namesrv: Namesrv = None,
    context: Context = None,
    output: Output = None,
    timeout: Timeout = None,
    address_map: AddressMap = None,
    access_key: AccessKey = None,
    secret_key_file: SecretKeyFile = None,
    secret_key_command: SecretKeyCommand = None,
    tools_yml: ToolsYml = None,
    tls: Tls = False,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    yes_context: YesContext = None,
    plan: PlanFile = None,
    no_color: NoColor = False,
    columns: Columns = None,
    no_headers: NoHeaders = False,
    sort: Sort = None,
    verbose: Verbose = False,
) -> None:
    """Declare the options that every command accepts; the function is never called."""


GLOBALS: tuple[Parameter, ...] = parameters_of(global_options)

# Options shown only in the help of verbs that change, and of verbs whose plan can be kept.
CHANGE_ONLY = frozenset({"dry_run", "yes", "yes_context"})
PLAN_ONLY = frozenset({"plan"})


def merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Merge the options before the noun with those after the verb; the latter win."""
    return {
        **before,
        **{name: value for name, value in after.items() if value not in (None, False)},
    }
