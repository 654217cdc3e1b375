"""What was measured as rows in the contract's columns, and the file that keeps them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from parsers.records import Request

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from advisor.runner.block import Facts, Measured

SOURCE = "phasewise run"
_COLUMNS = tuple(f.name for f in fields(Request) if not f.metadata["inside"])
_DIGITS = 3


def row(measured: Measured, facts: Facts, model: str, line: int, source: str = SOURCE) -> dict[str, Any]:
    """A request's columns, with what else is known of it: ``inter_token_ms``, what it was, whose turn.

    Args:
        measured: the request.
        facts: of the engine that answered it.
        model: its name.
        line: of the row where it is kept.
        source: where that is.
    """
    t = measured.timed
    request = Request(
        source=source,
        line=line,
        engine=facts.name,
        model=model,
        started_at=t.started_at,
        finished_at=t.started_at + timedelta(milliseconds=t.total_ms),
        prompt_tokens=t.prompt_tokens,
        cached_tokens=t.cached_tokens,
        prefill_tokens=t.prefill_tokens,
        prefill_ms=t.prefill_ms,
        output_tokens=t.output_tokens,
        decode_ms=t.decode_ms,
        ttft_ms=t.ttft_ms,
        ttft_from=None if t.ttft_ms is None else "arrival",
        total_ms=t.total_ms,
        context_tokens=t.prompt_tokens + t.output_tokens,
        draft_tokens=t.draft_tokens,
        accepted_tokens=t.accepted_tokens,
        finish_reason=None,  # that it came to its length is the runner's doing
    )
    return columns_of(request) | {
        "decode_steps": t.decode_steps,
        "inter_token_ms": [_told(ms) for ms in t.inter_token_ms],
        "label": measured.prompt.ask.label,
        "side": measured.side,
        "block": measured.block,
    }


def columns_of(request: Request) -> dict[str, Any]:
    """A request in the contract's columns, as JSON takes them."""
    return {name: _told(getattr(request, name)) for name in _COLUMNS}


def _told(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if hasattr(value, "strftime") else value


class KeptRows:
    """A file of JSON Lines that gets each row when it is measured, so that it can be watched.

    What was in it goes when the first row comes.

    When the file can't take a row, the rows before it stay whole, and `fault` says why no more are there.

    Args:
        path: the file.

    Raises:
        InputError: it can't be written at all.
    """

    def __init__(self, path: Path) -> None:
        self.fault: str | None = None
        self._path = path
        self._whole = 0
        self._file: FileIO | None = None
        try:
            is_new = not path.exists()
            path.open("ab").close()
            if is_new:
                path.unlink()
        except OSError as error:
            raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None

    def add(self, columns: dict[str, Any]) -> None:
        """One more row."""
        if self.fault is not None:
            return
        line = json.dumps(columns, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            self._file = self._file or self._path.open("wb", buffering=0)
            while line:
                line = line[self._file.write(line) :]
            self._whole = self._file.tell()
        except OSError as error:
            self.fault = f"{self._path}: later rows are missing ({error.strerror or error})."
            if self._file is not None:
                with suppress(OSError):  # a device has no end to cut
                    self._file.truncate(self._whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
