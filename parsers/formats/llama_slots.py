"""Answers of llama-server's `/slots`: what each slot does at that moment. They hold no times.

So there is a row for how many slots were at work, and the setup learns of the slots and their context. Until
b3680 a slot had a `state`, 1 for one at work; since then it says `is_processing`. Prompts, which the answer
may hold in full, are not kept; an answer too long to be kept whole is passed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parsers.formats.base import Format, Reader, line
from parsers.formats.json_values import count
from parsers.records import Interval

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At

_ENGINE = "llama-server"
_MOST_SLOTS = 1024

LINES = (line("slots", b'"n_ctx":', rb"(?P<body>\[\{(?s:.*)\}\])\s*$", b'"next_token":'),)


class SlotsReader(Reader):
    """Each answer is a row."""

    engine = _ENGINE

    def slots(self, m: re.Match[bytes], at: At) -> bool:
        """``[{"id":0,"n_ctx":4096,"is_processing":true,"id_task":7,"next_token":{...}}, ...]``."""
        try:
            slots = json.loads(m["body"])
        except (ValueError, RecursionError):
            return False
        works = [_works(slot) for slot in slots[:_MOST_SLOTS] if isinstance(slot, dict)]
        if len(works) != len(slots) or None in works:
            return False
        contexts = {count(slot, "n_ctx") for slot in slots}
        self.process.learn(at, slots=len(slots), context=contexts.pop() if len(contexts) == 1 else None)
        self.process.emit(Interval(line=at.number, engine=_ENGINE, time=at.time, running=works.count(True)))
        return True


def _works(slot: dict[str, Any]) -> bool | None:
    working = slot.get("is_processing")
    if isinstance(working, bool):
        return working
    return {0: False, 1: True}.get(count(slot, "state") or 0) if "state" in slot else None


FORMAT = Format(
    engine=_ENGINE,
    title="llama-server /slots (JSON)",
    versions="b1413 and newer",
    grain="interval",
    identify=(b'"is_processing":', b'"n_remain":'),
    lines=LINES,
    reader=SlotsReader,
    splits="none: slots at work",
)
