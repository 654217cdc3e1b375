"""``python -m tests.fuzz TARGET``: runs a target on ever new inputs until one of them breaks what must hold.

With atheris installed (``pip install atheris``; Linux and macOS) coverage of the project's code guides the
way; elsewhere hypothesis makes inputs near the known ones. What breaks something is left in ``build/fuzz/``.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

FOUND = Path("build/fuzz")
_TIMEOUT_S, _MEMORY_MB = 10, 1536
_ROUND = 500
_LONGEST_WORD = 60
_UNSEEN = [
    *("parsers.search", "parsers.grams", "parsers.finding", "parsers.records"),
    *("parsers.printed", "parsers.framing", "parsers.usual", "parsers.formats.llama_server.usual"),
    "parsers.formats.llama_server.together",
]
"""Loops over what formats look for, whatever a log holds: to see them took half of the time. And what
compares arrays: atheris 3.0 keeps for ever what such a comparison gives.
"""


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", help="one of `list`, or `all` of them one after the other")
    parser.add_argument("--runs", type=int, help="stop after so many inputs")
    parser.add_argument(
        "--seconds", type=int, help="stop after so long; the default is 60, unless --runs says"
    )
    parser.add_argument("--corpus", type=Path, help="a folder: keep what was found there, and go on from it")
    parser.add_argument(
        "--plain", action="store_true", help="use hypothesis, also where atheris is installed"
    )
    parser.add_argument("input", nargs="*", type=Path, help="run only these files, once each")
    asked = parser.parse_args()
    if asked.runs is None and asked.seconds is None:
        asked.seconds = 60
    guided = not asked.plain and not asked.input and asked.target not in ("all", "list") and _instrument()
    from tests.fuzz.targets import TARGETS

    if asked.target == "list":
        print("\n".join(TARGETS))
    elif asked.target == "all":
        given = [argument for argument in sys.argv[1:] if argument != "all"]
        failed = [
            name
            for name in TARGETS
            if subprocess.run([sys.executable, "-m", "tests.fuzz", name, *given], check=False).returncode
        ]
        sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
    elif asked.target not in TARGETS:
        parser.error(f"no target {asked.target!r}; there are {', '.join(TARGETS)}, or all of them with `all`")
    elif asked.input:
        for path in asked.input:
            TARGETS[asked.target].run(path.read_bytes())
    elif guided:
        _guided(TARGETS[asked.target], asked.runs, asked.seconds, asked.corpus)
    else:
        _plain(TARGETS[asked.target], asked.runs, asked.seconds)


def _instrument() -> bool:
    """Import the project so that its branches are seen; false where atheris is not installed."""
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        return False
    with atheris.instrument_imports(include=["parsers", "advisor", "rules", "gguf"], exclude=_UNSEEN):
        import gguf  # noqa: F401 - else imported when it is needed first

        import tests.fuzz.targets  # noqa: F401 - imports what is to be seen
    return True


def _guided(target: Target, runs: int | None, seconds: int | None, kept: Path | None) -> None:
    atheris = importlib.import_module("atheris")
    found = FOUND / target.name
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        corpus, words = Path(folder, "corpus"), Path(folder, "words")
        corpus.mkdir()
        for number, data in enumerate(target.seeds()):
            Path(corpus, str(number)).write_bytes(data[: target.longest])
        short = sorted(word for word in target.words() if 1 < len(word) <= _LONGEST_WORD)
        words.write_text("".join(map(_quoted, short)))
        flags = [f"-max_len={target.longest}", f"-timeout={_TIMEOUT_S}", f"-rss_limit_mb={_MEMORY_MB}"]
        flags += [f"-artifact_prefix={found}/", "-print_final_stats=1", "-len_control=0"]
        flags += [f"-dict={words}"] if short else []
        flags += [f"-runs={runs}"] if runs is not None else []
        flags += [f"-max_total_time={seconds}"] if seconds is not None else []
        folders = [str(corpus)]
        if kept is not None:
            (kept / target.name).mkdir(parents=True, exist_ok=True)
            folders.insert(0, str(kept / target.name))
        atheris.Setup([sys.argv[0], *flags, *folders], target.run)
        atheris.Fuzz()


def _quoted(word: bytes) -> str:
    """A line of libFuzzer's dictionaries."""
    escaped = "".join(f"\\x{byte:02x}" for byte in word)
    return f'"{escaped}"\n'


def _plain(target: Target, runs: int | None, seconds: int | None) -> None:
    """Run rounds of examples, each of another seed."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from tests.fuzz.mutations import inputs

    began, done = time.monotonic(), 0
    strategy = inputs(target)
    while (runs is None or done < runs) and (seconds is None or time.monotonic() - began < seconds):
        size = min(_ROUND, runs - done) if runs is not None else _ROUND

        @seed(done)
        @settings(
            max_examples=size,
            deadline=1000 * _TIMEOUT_S,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def once(data: bytes) -> None:
            target.run(data)

        once()
        done += size
    print(f"{target.name}: {done:,} inputs in {time.monotonic() - began:.0f} s, nothing broke")


if __name__ == "__main__":
    main()
