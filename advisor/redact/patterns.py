"""What is private in a text, and where: one pattern for each kind of secret.

A pattern's group ``it`` is what is masked; what stands around it says why.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple


class Private(NamedTuple):
    """One kind of private text.

    Attributes:
        kind: what its labels are called: ``[ip-1]``.
        pattern: finds it; the group ``it`` is masked.
    """

    kind: str
    pattern: re.Pattern[str]


_TOKEN = (
    r"(?:sk|pk|rk|whsec)[-_][-_A-Za-z0-9]{12,}"  # OpenAI, Anthropic, OpenRouter, Stripe
    r"|(?:xox[abeprs]|xapp|glpat|glrt|nvapi|pypi|pplx|xai|csk|sess|tvly|lin_api|pat)-[-_A-Za-z0-9]{12,}"
    r"|(?:hf|api_org|gh[oprsu]|github_pat|dckr_pat|npm|gsk|r8|fw|sbp|glsa|glc|lsv2_[ps]t|ntn|key|tgp_v1|shp(?:at|ss|ca)"
    r"|do[oprt]_v1|rnd|figd|phc|phx)_[-_A-Za-z0-9]{12,}"
    r"|AIza[-_A-Za-z0-9]{20,}|ya29\.[-_A-Za-z0-9.]{12,}"  # Google
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"  # AWS
    r"|SG\.[-_A-Za-z0-9]{12,}\.[-_A-Za-z0-9]+|hv[sbr]\.[-_A-Za-z0-9]{12,}|dapi[0-9a-f]{32}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]+|eyJ[-_A-Za-z0-9]+\.[-_A-Za-z0-9.]+"  # age, JSON Web Tokens
)
_CALLED = (
    r"(?:api[-_]?key|access[-_]?key|private[-_]?key|account[-_]?key|subscription[-_]?key|token|secret"
    r"|password|passwd|passphrase|pwd|credentials?|cookie|authorization|shared[-_]?access[-_]?signature)"
)
_OPTION = r"(?<![\w-])--?(?:[a-z-]{0,40}-)?(?:key|token|secret|password|pat)"
_VALUE = r"(?P<quote>['\"])(?P<quoted>(?:\\.|(?!(?P=quote)).)*+)(?P=quote)|(?![\d.,]+(?:\s|$))(?P<it>\S+)"
_COUNTRIES = (
    "de|uk|fr|nl|eu|us|ca|au|jp|cn|ru|br|ch|at|it|es|se|no|fi|dk|pl|cz|kr|be|ie|pt|hu|gr|tr|il|za|mx|ar|tw"
    "|sg|nz"
)
_TOP = (
    r"com|net|org|io|ai|dev|app|cloud|edu|gov|mil|info|biz|tech|xyz|co|me|online|site|host|systems|network|ts"
    r"|local|localdomain|lan|box|home|internal|intern|corp|intra|intranet|private|test|example|svc|arpa"
)
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_NAME = r"[^/\\\s\"'`<>|:,;()\[\]]+"
_DAY = r"20\d\d-?\d\d-?\d\d(?!\d)"
"""A file's date after the address that names it: 10.0.0.5-20261129.log."""
_IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}"
_NUMBER = r"\d+(?:\.\d+)?(?![.-]?\w)"
"""The rate of a load, as in constant@1.50."""
_IPV6 = rf"(?:[0-9A-Fa-f]{{0,4}}:){{2,7}}(?:{_IPV4}|[0-9A-Fa-f]{{1,4}})?"
_HOMES = (
    r"(?:(?:\\?/)homes?\\?/|/(?:run/)?media/|(?i:/users/|\\home\\"
    r"|[a-z]:[/\\]+(?:users|documents and settings)[/\\]+|\\\\[\w.$\[\]-]+\\users\\))"
)
_EXTENSIONS = r"(?i:gguf|ggml|safetensors|bin|pth?|onnx|llamafile|engine|plan|mlmodel|jinja)"


def _private(kind: str, pattern: str) -> Private:
    return Private(kind, re.compile(pattern))


TOKENS = (
    _private(
        "secret", r"(?P<it>-----BEGIN [A-Z ]*PRIVATE KEY(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))"
    ),
    _private("secret", rf"(?<![A-Za-z0-9])(?P<it>{_TOKEN})"),
    _private("secret", r"\bssh-(?:rsa|dss|ed25519) +(?P<it>AAAA[A-Za-z0-9+/=]{12,}(?: +\S+@\S+)?)"),
    _private("secret", r"(?i:\b(?:bearer|basic)\s+)(?P<it>[A-Za-z0-9+/=._~-]{6,})"),
)
"""Keys that show what they are."""
SECRETS = (
    *TOKENS,
    _private("secret", r"(?i:\bauthorization['\"]?\s*[=:]\s*['\"]?token\s+)(?P<it>[^\s'\"]+)"),
    _private("secret", r"(?i:\b(?:api key(?: provided)?|password is)[: ]+)(?P<it>[^\s'\",;]{6,})"),
    _private("secret", r"(?i:hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)(?P<it>[\w/-]+)"),
    _private("secret", rf"(?i:(?<![a-z]){_CALLED}s?['\"]?\s*[=:]\s*\[)(?P<it>['\"][^\]]*)"),
    _private("secret", rf"(?i:(?<![a-z]){_CALLED}[_a-z]*['\"]?\s*[=:]\s*)(?!(?i:bearer|basic) )(?:{_VALUE})"),
    _private("secret", rf"(?i:(?:{_OPTION}|\bpassword)\s+)(?:{_VALUE})"),
    _private("secret", r"(?i:(?:--api[-_]key[= ]|\b(?:password|api[-_]key)['\"]?\s*[=:]\s*))(?P<it>\d{6,})"),
    _private("secret", r"(?P<it>\bbot\d{8,}:[A-Za-z0-9_-]{20,})"),
    _private(
        "secret",
        r"(?i:[?&;](?:x-amz-(?:signature|credential|security-token)|key|sig|signature|code|auth|access_token)=)(?P<it>[^&\s\"']+)",
    ),
    _private("secret", r"(?i:\b[A-Z_]*(?:_KEY|_PAT|_AUTH)=)(?P<it>\S+)"),
    _private("secret", r"(?<=://)(?P<it>[^/\s@]+)(?=@)"),
)
HOMES = (
    _private("host", r"\\\\(?!wsl[.$])(?P<it>[\w.-]+)(?=\\[\w$.-])"),
    _private("user", _HOMES + r"(?P<it>[^/\\\s]+(?: [^/\\\s]+){1,3}(?=[/\\])|[^/\\\s]+)"),
    _private("user", r"%2[Ff](?:home|[Uu]sers)%2[Ff](?P<it>[^%/\s&]+)"),
    _private("user", r"(?<![\w./\\-])home/(?P<it>[^/\\\s]+)(?=/)"),
    _private("user", r"(?<![\w.~/\\-])~(?P<it>[A-Za-z_][\w.-]*)(?=[/\\])"),
)
NETWORK = (
    _private("mail", rf"(?<![\w.+-])(?P<it>[\w.+-]+@(?!{_NUMBER})[\w-]+(?:\.[\w-]+)+)\b"),
    _private(
        "mac",
        r"(?<![\w:.-])(?P<it>[0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5}|(?:-[0-9A-Fa-f]{2}){5}))(?![\w:-])",
    ),
    _private("ip", rf"(?<![\w:.])(?P<it>{_IPV6})(?![\w:]|\.\d)"),
    _private(
        "ip",
        rf"(?<![\w.-])(?P<it>{_IPV4})"
        rf"(?!\w|-(?!{_DAY})|\.(?!{_DAY})\d| [IWED] )",  # llama.cpp's clock: 1.23.112.133 I
    ),
    _private("host", r"(?<=://)(?P<it>[^\s/:@\]\[\"'<>?#,;)]+)"),
    _private("host", r"(?<=dial tcp )(?P<it>[A-Za-z][\w.-]*)(?=:\d)"),
    _private("host", r"\blookup (?P<it>[A-Za-z][\w.-]*)(?= on )"),
    _private("host", r"(?<![\w-])(?P<it>(?:DESKTOP|LAPTOP)-[A-Z0-9]{6,})(?![\w-])"),
    _private("host", r"(?<=\]@)(?P<it>[A-Za-z][\w.-]*)"),
    _private("host", rf"(?<![\w.@/\\-])(?P<it>(?:{_LABEL}\.)+(?i:{_TOP}))(?![\w-]|\.\w)"),
    _private("host", rf"(?<![\w.@/\\-])(?P<it>(?:{_LABEL}\.){{2,}}(?:{_COUNTRIES}))(?![\w-]|\.\w)"),
    _private("host", r"(?<![\w.-])(?P<it>ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\b(?:\.[\w.-]+)?)"),
    _private(
        "host",
        r"(?i:(?<![a-z])(?:host(?:_?name)?|server[-_]?name|node[-_]?name)['\"]?\s*[=:]\s*['\"]?|--host[ =]+)"
        rf"(?P<it>[A-Za-z]{_NAME})",
    ),
)
USERS = (
    _private(
        "at",
        r"(?<![\w\]+.-])(?P<it>[A-Za-z_][\w.-]*@(?!i?q\d|[fb]\d|bf16|fp\d|int\d|mxfp|mlx|sha256\b|latest\b|main\b)[A-Za-z][\w-]*)\b",
    ),
    _private(
        "user",
        r"(?i:(?<![a-z])(?:user(?:_?name)?|logname)['\"]?\s*[=:]\s*['\"]?)"
        rf"(?P<it>[A-Za-z_]{_NAME})",
    ),
)
SUSPECT = rf"[^0-9A-Za-z_-]|(?:^|[-_])(?:{_TOKEN})|ip-\d"
"""What every text with something private holds, and few request ids do: a big log has millions of those."""

FOLDERS = re.compile(
    r"(?<![\w.:/\\~-])(?:[A-Za-z]:[/\\]|[/\\]{1,2}|(?:~|\$HOME|\$\{HOME\})[/\\]|\.{1,2}[/\\])(?:[^/\\\"'<>|*?:\n]{1,80}[/\\]){0,24}?"
    rf"(?=[^/\\\s\"'<>|*?:]{{1,120}}\.(?:{_EXTENSIONS})\b(?![/\\]))"
)
"""The folders before a model's file name."""

_OF_TOKENS = re.compile(r"(?i)token(?:s\b|_[a-z]+|\s*[=:])")
_WORDY = re.compile(r"(?:sk|pk|rk|hf|fw|key|fig|pat)[-_]")
_SHORTEST_TOKEN = 8
_LONGEST_WORD = 16
_NO_SECRETS = {
    "none",
    "null",
    "true",
    "false",
    "unset",
    "empty",
    "infrastructure",
    "authentication",
    "is",
    "token",
}
_MASKED = re.compile(r"\[?['\"]?\[[a-z]+-\d")
_VERSION = re.compile(
    r"(?i)(?:version|ver|release|driver|cuda|cudnn|cublas|rocm|nccl|tensorrt|trt|flash-attn|build|[=<>~]=)[\s:='\"(v]*$"
)
_CLOCK = re.compile(r"\d{1,3}\.\d\d\.\d{3}\.\d{3}(?= [IWED] )")
_NO_HOSTS = {
    *("none", "null", "true", "false", "auto", "unknown"),
    *("localhost", "localhost.localdomain", "host.docker.internal", "host.containers.internal"),
    *("hf.co", "huggingface.co", "registry.ollama.ai", "ollama.com", "modelscope.cn", "github.com"),
}
"""No name, this very machine, and where everybody's models come from."""


def is_telling(kind: str, it: str, found: re.Match[str]) -> bool:
    """Whether what a pattern found is one: not a label, a version, a time, or this very machine."""
    if not it or _MASKED.match(it):
        return False
    if kind == "ip":
        return _is_address(it) and not _is_version(found)
    if kind == "host":
        return it.lower() not in _NO_HOSTS and not re.fullmatch(_IPV4, it) and not it.isdigit()
    if kind == "secret":
        return _is_secret(it, found)
    return it.lower() not in _NO_SECRETS


def _is_secret(it: str, found: re.Match[str]) -> bool:
    """Whether a value may be a key: ``token: 25ms`` and ``sk-learn-embeddings-model`` are none."""
    if it.lower().strip(".,;)") in _NO_SECRETS:
        return False
    if _OF_TOKENS.match(found[0]):
        return len(it) >= _SHORTEST_TOKEN and "<|" not in it
    if _WORDY.match(it):
        return any(len(part) >= _LONGEST_WORD or _is_mixed(part) for part in re.split(r"[-_]", it)[1:])
    return True


def _is_mixed(part: str) -> bool:
    return len(part) >= _SHORTEST_TOKEN and any(c.isdigit() for c in part)


def _is_version(found: re.Match[str]) -> bool:
    """Four numbers that are a version, or llama.cpp's clock before a level."""
    before = found.string[max(0, found.start("it") - 24) : found.start("it")]
    return _VERSION.search(before) is not None or _CLOCK.match(found.string, found.start("it")) is not None


def _is_address(text: str) -> bool:
    """An address of some machine; ``0.30.1.2`` and ``a::b`` of C++ are none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return False
    return not text.startswith("0.") if address.version == 4 else any(c.isdigit() for c in text)


def same(kind: str, it: str) -> str:
    """One spelling for each secret: hosts and addresses know no case."""
    if kind == "ip":
        return ipaddress.ip_address(it).compressed
    return it.lower() if kind in {"mail", "host", "mac"} else it
