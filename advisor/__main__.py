"""The command ``phasewise``."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

INTERRUPTED = 130


def main() -> None:
    """Run the command line, after making sure that `rules` and `parsers` are ours."""
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _terminate)
    try:
        if shadowed := _shadowed():
            _tell(shadowed)
            raise SystemExit(2)
        from advisor.cli import run

        run(sys.argv[1:])
    except KeyboardInterrupt:
        _tell("phasewise: interrupted.")
        raise SystemExit(INTERRUPTED) from None


def _tell(sentence: str) -> None:
    with suppress(OSError):
        print(sentence, file=sys.stderr)


def _terminate(number: int, frame: object) -> NoReturn:
    """End as any run does, so that nothing temporary is left behind; a second time changes nothing."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _shadowed() -> str | None:
    """A sentence if another distribution's package stands in for one of ours.

    The import names are fixed but generic, so a shared environment may hold others of the same name.
    """
    from importlib.util import find_spec

    home = Path(__file__).resolve().parent.parent
    for name in ("rules", "parsers"):
        spec = find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != home / name:
            place = found or "nowhere"
            return (
                f"phasewise: the package '{name}' is loaded from {place}, which is not phasewise's; install "
                "phasewise in an environment of its own (pipx install phasewise)."
            )
    return None


if __name__ == "__main__":
    main()
