"""The options of the command line, each said once; what several verbs share comes in groups."""

from __future__ import annotations

import inspect
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class PageFormat(StrEnum):
    """How `analyze` prints."""

    TERMINAL = "terminal"
    JSON = "json"
    MD = "md"


class ReportFormat(StrEnum):
    """What `report` writes."""

    MD = "md"
    HTML = "html"
    JSON = "json"


class CheckFormat(StrEnum):
    """How `check` prints."""

    TERMINAL = "terminal"
    GITHUB = "github"
    JUNIT = "junit"
    JSON = "json"


class EstimateFormat(StrEnum):
    """How `estimate` prints."""

    TERMINAL = "terminal"
    JSON = "json"


class GroupBy(StrEnum):
    """What `analyze` and `report` tell apart."""

    HOST = "host"
    MODEL = "model"
    ENGINE = "engine"
    HOUR = "hour"


class Cluster(StrEnum):
    """Where logs are read other than here."""

    RAY = "ray"


class Table(StrEnum):
    """The tables that can be exported."""

    REQUESTS = "requests"
    INTERVALS = "intervals"
    EVENTS = "events"
    AGGREGATES = "aggregates"


class RowFormat(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class TailFormat(StrEnum):
    """How `tail` prints lines."""

    TEXT = "text"
    JSON = "json"


class Shape(StrEnum):
    """What the prompts that `run` makes look like."""

    SWEEP = "sweep"
    CHAT = "chat"
    RAG = "rag"
    AGENT = "agent"
    SUMMARISE = "summarise"


Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Logs: files, folders, patterns, or - for stdin."),
]
Engine = Annotated[
    str | None, typer.Option(metavar="NAME", help="Read as this engine's log; see `phasewise formats`.")
]
RuleId = Annotated[str, typer.Argument(metavar="RULE", help="An id of `phasewise rules`.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="File to write.")]
FormatToCheck = Annotated[Path, typer.Argument(metavar="FILE", help="A format file.")]
FormatFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A format of your own too; see docs/adding-a-format.md."),
]
DebugUnparsed = Annotated[
    bool,
    typer.Option("--debug-unparsed", help="Show shapes of lines that look like timings and are not read."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=64, help="Processes that read several logs at once; default: as many as pay."
    ),
]
On = Annotated[
    Cluster | None,
    typer.Option(help="Read on a cluster: Ray's at RAY_ADDRESS, on this machine, or one started for this."),
]
Cache = Annotated[
    bool,
    typer.Option("--cache", help="Keep what is read of big logs; next time only what was appended is read."),
]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only what finished at or after this time (UTC).")
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only what finished at or before this time (UTC).")
]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="Only models whose name contains this.")]
Slot = Annotated[int | None, typer.Option(metavar="N", help="Only this slot.")]
Gguf = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The model file, for what the log hides of it."),
]
Props = Annotated[
    str | None,
    typer.Option(metavar="URL|FILE", help="A running llama-server, or its answer to GET /props."),
]
DeviceName = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="The device, such as 'RTX 4090', or this-machine."),
]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        metavar="GB/S",
        min=0.1,
        max=1e5,
        help="Memory bandwidth in GB/s of the device that holds the weights.",
    ),
]
Vram = Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of the device, such as 24GiB.")]
Memory = Annotated[str | None, typer.Option(metavar="SIZE", help="Main memory, such as 64GiB.")]
Cores = Annotated[int | None, typer.Option(metavar="N", min=1, help="Physical cores.")]
Sockets = Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU sockets.")]
Last = Annotated[
    str | None, typer.Option(metavar="TIME", help="Of what is there already, only the last, such as 10m.")
]
History = Annotated[
    int | None,
    typer.Option(metavar="N", min=100, help="Rows kept to look at and to judge by; totals count all."),
]
Unit = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A systemd unit, such as ollama.")]
Container = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A container's log.")]
Pod = Annotated[list[str] | None, typer.Option(metavar="[NAMESPACE/]NAME", help="A Kubernetes pod's log.")]
By = Annotated[
    GroupBy | None,
    typer.Option(help="The numbers of each host, model, engine or hour too, and which stands out."),
]
NoRedact = Annotated[bool, typer.Option("--no-redact", help="Keep paths, names and secrets.")]

WeightsBytes = Annotated[
    str | None, typer.Option(metavar="BYTES", help="Weights of the model, such as 4917737553 or 4.58GiB.")
]
ActiveWeightsBytes = Annotated[
    str | None, typer.Option(metavar="BYTES", help="Of them, what a token of a mixture of experts reads.")
]
Layers = Annotated[int | None, typer.Option(min=1, max=10_000, help="Layers of the model.")]
KvBytesPerToken = Annotated[
    float | None, typer.Option(min=1, help="KV cache bytes per token of context, in f16.")
]
Tflops = Annotated[
    float | None, typer.Option(min=0.1, help="Dense FP16 tensor TFLOPS: bounds the prefill time.")
]
Prompt = Annotated[int | None, typer.Option(min=0, max=10**9, help="Prompt tokens, cached ones included.")]
OutputTokens = Annotated[int | None, typer.Option("--output", min=0, max=10**9, help="Tokens to generate.")]
Cached = Annotated[int, typer.Option(min=0, help="Prompt tokens that the cache already holds.")]
ContextDepth = Annotated[int, typer.Option(min=0, max=10**9, help="Tokens in the cache before the prompt.")]
PrefillPoint = Annotated[
    list[str] | None,
    typer.Option(metavar="TOKENS:TOK_S", help="Measured prefill: prompt tokens and their rate. Repeatable."),
]
DecodeRate = Annotated[
    float | None,
    typer.Option("--decode-tok-s", min=0.001, help="Measured decode rate, in place of the prediction."),
]
NoFlashAttention = Annotated[bool, typer.Option("--no-flash-attention", help="Flash attention is off.")]


@dataclass(frozen=True, slots=True)
class Inputs:
    """How the logs are read."""

    panel: ClassVar[str] = "How the logs are read"

    engine: Engine = None
    format_file: FormatFile = None
    debug_unparsed: DebugUnparsed = False
    cache: Cache = False
    jobs: Jobs = None
    on: On = None


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs that know a log, and are started for it."""

    panel: ClassVar[str] = "Logs that a program knows (each may be given again)"

    unit: Unit = None
    container: Container = None
    pod: Pod = None

    @property
    def named(self) -> bool:
        """Whether any is."""
        return bool(self.unit or self.container or self.pod)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows count."""

    panel: ClassVar[str] = "Which rows count"

    since: Since = None
    until: Until = None
    model: Model = None
    slot: Slot = None


@dataclass(frozen=True, slots=True)
class Given:
    """What no log says."""

    panel: ClassVar[str] = "What the log doesn't say (or once in phasewise.toml)"

    gguf: Gguf = None
    props: Props = None
    device: DeviceName = None
    bandwidth: Bandwidth = None
    vram: Vram = None
    memory: Memory = None
    cores: Cores = None
    sockets: Sockets = None


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb whose parameters of a group's type are that group's options on the command line."""
    declared = inspect.signature(verb, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in declared if is_dataclass(p.annotation)}
    flat = [o for p in declared for o in (_options(p.annotation) if p.name in groups else [p])]

    @wraps(verb)
    def called(**given: Any) -> None:
        filled = {
            name: group(**{f.name: given.pop(f.name) for f in fields(group)})
            for name, group in groups.items()
        }
        verb(**given, **filled)

    called.__dict__["__signature__"] = inspect.Signature(flat)
    called.__annotations__ = {option.name: option.annotation for option in flat}
    return called


def gathered(
    parameter: str, declared: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A verb whose parameter takes what these options gave, by name; ``None`` if not given."""
    by_name = {name.replace("-", "_"): name for name in declared}
    each = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=declared[option])
        for name, option in by_name.items()
    ]

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        taken = inspect.signature(verb).parameters.values()
        flat = [o for p in taken for o in (each if p.name == parameter else [p])]

        @wraps(verb)
        def called(**given: Any) -> None:
            values = {option: given.pop(name) for name, option in by_name.items()}
            verb(**given, **{parameter: values})

        called.__dict__["__signature__"] = inspect.Signature(flat)
        called.__annotations__ = {option.name: option.annotation for option in flat}
        return called

    return decorate


def _options(group: Any) -> list[inspect.Parameter]:
    """A group's fields as keyword parameters, all in the group's own panel of the help."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
            annotation=_in_panel(hints[f.name], group.panel),
        )
        for f in fields(group)
    ]


def _in_panel(hint: Any, panel: str) -> Any:
    kind, option = get_args(hint)
    option = copy(option)
    option.rich_help_panel = panel
    return Annotated[kind, option]
