"""Runs a model by llama-cpp-python in a process of its own; a script of the standard library and that.

One JSON object a line on standard input is asked, one on standard output answers it. The process ends when
its input does, also in the midst of a request.

Its standard error is the engine's log: what llama-cpp-python prints with ``verbose=True``, by a log callback
of our own, for theirs takes INFO for DEBUG and an error for something else. DEBUG lines, 2,000 for a model,
are left out. Where nothing of a context is reused llama-cpp-python says nothing; then the line that it prints
for a hit is written with a 0, so that a log tells each prompt's length.

Prefill and decode are llama.cpp's own counters; the log has them as they are. They book a prompt's last token
as *eval* where it is evaluated alone; our own clock splits them then, for to llama-server that is prefill.
With prompt lookup our clock alone tells the phases: drafts are booked as prompt, and counters are read early.
"""

from __future__ import annotations

import ctypes
import io
import itertools
import json
import os
import queue
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

DEBUG, ERROR, CONTINUED = 1, 4, 5
"""Levels of ggml.h."""
GPUS = 1, 2
"""Kinds of devices of ggml-backend.h, apart and in the processor; what was 2 before is called BLAS."""
EXPECTED = (ValueError, RuntimeError, MemoryError, OSError, AssertionError)
REUSE = re.compile(
    r"Llama\.generate: (?:(?P<hit>\d+) prefix-match hit|(?P<all>full prompt already cached)"
    r"|\d+ prefix-match found but partial kv removal not supported)"
)


class Log(io.TextIOBase):
    """The engine's log; to fail in the midst of a model is no use, so it remembers that.

    Attributes:
        failed: why it could not be written.
        reuse: what was last said of the context that a request finds.
    """

    def __init__(self) -> None:
        self.failed: str | None = None
        self.reuse: re.Match[str] | None = None

    def write(self, text: str, /) -> int:
        """Append, at once."""
        self.reuse = REUSE.match(text) or self.reuse
        left = memoryview(text.encode("utf-8", "replace"))
        try:
            while left:
                left = left[os.write(2, left) :]
        except OSError as error:
            self.failed = error.strerror or str(error)
        return len(text)


class NativeLog:
    """What llama.cpp says, from INFO up; keeps its errors."""

    def __init__(self, llama_cpp: Any, log: Log) -> None:
        self.errors: list[str] = []
        self._log, self._level = log, DEBUG
        self._callback = llama_cpp.llama_log_callback(self._said)
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _said(self, level: int, text: bytes, _: object) -> None:
        words = text.decode("utf-8", "replace")
        self._level = self._level if level == CONTINUED else level
        if self._level == ERROR:
            self.errors.append(words)
        if self._level != DEBUG:
            self._log.write(words)


class Worker:
    """One model, and what is asked of it."""

    def __init__(self, log: Log) -> None:
        import llama_cpp

        self._llama_cpp = llama_cpp
        self._log = log
        self.native = NativeLog(llama_cpp, log)
        self._llm: Any = None
        self._lookup: Any = None

    def hello(self) -> dict[str, Any]:
        """What the build is, and what it can run on."""
        offloads = bool(self._llama_cpp.llama_supports_gpu_offload())
        found = processors(self._llama_cpp)
        return {"version": self._llama_cpp.__version__, "offloads": offloads, "processors": found}

    def load(self, options: dict[str, Any], lookup: int | None, ngram: int) -> dict[str, Any]:
        """Load a model, with the options of `Llama`, and tokens that prompt lookup proposes and compares."""
        if lookup is not None:
            self._lookup = counted_lookup(lookup, ngram)
            options |= {"draft_model": self._lookup, "logits_all": True}
        self._llm = self._llama_cpp.Llama(**options, verbose=True)
        return {"context": self._llm.n_ctx()}

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text; names of special tokens in it are such tokens."""
        return list(self._llm.tokenize(text.encode("utf-8"), add_bos=False, special=True))

    def chat_text(self, messages: list[dict[str, str]]) -> str | None:
        """Messages as the model's template writes them; ``None`` if it has none.

        Raises:
            ValueError: the template can't write them.
        """
        from jinja2 import TemplateError
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        template = self._llm.metadata.get("tokenizer.chat_template")
        if template is None:
            return None
        marks = (self._llm.token_bos(), self._llm.token_eos())
        first, last = ("" if mark == -1 else self._llm._model.token_get_text(mark) for mark in marks)
        try:
            formatter = Jinja2ChatFormatter(template, eos_token=last, bos_token=first)
            return str(formatter(messages=messages).prompt)
        except TemplateError as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None

    def forget(self) -> None:
        """Nothing of the next prompt is reused."""
        self._llm.reset()
        self._llm._ctx.kv_cache_clear()

    def ask(self, prompt: list[int], output_tokens: int) -> dict[str, Any]:
        """Evaluate a prompt and generate so many tokens, greedily."""
        context, lookup = self._llm._ctx, self._lookup
        self._log.reuse = None
        self._llama_cpp.llama_synchronize(context.ctx)
        context.reset_timings()
        if lookup is not None:
            lookup.proposed = lookup.calls = 0
        arrivals: dict[int, float] = {}
        stream = self._llm.generate(prompt, temp=0.0)
        started_at, begin_s = time.time(), time.perf_counter()
        for n in range(output_tokens):
            next(stream)
            end_s = time.perf_counter()
            arrivals.setdefault(n if lookup is None else lookup.calls, end_s)
        stream.close()
        self._llama_cpp.llama_synchronize(context.ctx)
        counters = self._llama_cpp.llama_perf_context(context.ctx)
        cached = self._cached(len(prompt), counters)
        context.print_timings()
        first, last = (1e3 * (at_s - begin_s) for at_s in (arrivals[0], end_s))
        steps, share = output_tokens - 1, first / last
        return {
            "started_at": started_at,
            "cached_tokens": cached,
            "ttft_ms": first,
            "total_ms": last,
            "inter_token_ms": [1e3 * (b - a) for a, b in itertools.pairwise(arrivals.values())],
            **(booked(counters, share, steps) if lookup is None else self._speculated(first, last, steps)),
        }

    def _cached(self, prompt_tokens: int, counters: Any) -> int | None:
        """What was reused, as llama-cpp-python said; said it nothing, 0 where the counters agree."""
        reuse = self._log.reuse
        if reuse is not None:
            return prompt_tokens if reuse["all"] else int(reuse["hit"] or 0)
        evaluated = counters.n_p_eval if self._lookup is None else prompt_tokens
        if evaluated not in (prompt_tokens, prompt_tokens - 1):
            return None
        self._log.write(
            f"Llama.generate: 0 prefix-match hit, remaining {prompt_tokens} prompt tokens to eval\n"
        )
        return 0

    def _speculated(self, first_ms: float, last_ms: float, steps: int) -> dict[str, Any]:
        """Phases by our own clock; each call of the model gives one token and those of the draft it takes."""
        return {
            "prefill_ms": first_ms,
            "decode_ms": last_ms - first_ms if steps else None,
            "decode_steps": steps or None,
            "draft_tokens": self._lookup.proposed,
            "accepted_tokens": steps - self._lookup.calls,
        }


def booked(counters: Any, first_share: float, steps: int) -> dict[str, Any]:
    """What llama.cpp booked, split by the clock where eval has a step too many; a mere count is nothing."""
    prefill_ms, decode_ms = counters.t_p_eval_ms, counters.t_eval_ms
    if decode_ms and counters.n_eval > steps:
        both_ms = prefill_ms + decode_ms
        prefill_ms, decode_ms = both_ms * first_share, both_ms * (1 - first_share)
    return {
        "prefill_ms": prefill_ms or None,
        "decode_ms": decode_ms or None,
        "decode_steps": steps if decode_ms else None,
    }


def counted_lookup(tokens: int, ngram: int) -> Any:
    """Prompt lookup that counts how often it was asked and what it proposed."""
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    class Counted(LlamaPromptLookupDecoding):  # type: ignore[misc]
        proposed = calls = 0

        def __call__(self, input_ids: Any, /, **kwargs: Any) -> Any:
            draft = super().__call__(input_ids, **kwargs)
            self.calls += 1
            self.proposed += len(draft)
            return draft

    return Counted(max_ngram_size=ngram, num_pred_tokens=tokens)


def processors(llama_cpp: Any) -> list[dict[str, Any]]:
    """What ggml sees; nothing where this version names its functions otherwise."""
    try:
        names = _functions(llama_cpp)
        return [_processor(names, names["get"](n)) for n in range(names["count"]())]
    except (AttributeError, OSError, ValueError):
        return []


def _processor(names: dict[str, Any], device: int | None) -> dict[str, Any]:
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    names["memory"](device, ctypes.byref(free), ctypes.byref(total))
    name = (names["name"](device) or b"").decode("utf-8", "replace")
    return {
        "name": name,
        "description": (names["description"](device) or b"").decode("utf-8", "replace").strip(),
        "is_gpu": names["type"](device) in GPUS and name != "BLAS",
        "memory_bytes": total.value or None,
        "free_bytes": free.value if total.value else None,
    }


def _functions(llama_cpp: Any) -> dict[str, Any]:
    """The functions of ggml on devices, which llama-cpp-python does not wrap."""
    libraries = [llama_cpp.llama_cpp._lib]  # finds what is in those that it needs, but not on Windows
    if sys.platform == "win32":
        folder = Path(llama_cpp.__file__).parent / "lib"
        libraries += [ctypes.CDLL(str(path)) for path in sorted(folder.glob("ggml*.dll"))]
    size, text, device = ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
    shapes: dict[str, tuple[Any, ...]] = {
        "count": (size,),
        "get": (device, size),
        "name": (text, device),
        "description": (text, device),
        "type": (ctypes.c_int, device),
        "memory": (None, device, ctypes.POINTER(size), ctypes.POINTER(size)),
    }
    found = {}
    for name, shape in shapes.items():
        symbol = f"ggml_backend_dev_{name}"
        library = next((one for one in libraries if hasattr(one, symbol)), libraries[0])
        found[name] = ctypes.CFUNCTYPE(*shape)((symbol, library))
    return found


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what native code prints is log, and no answer
    log = Log()
    sys.stdout = sys.stderr = log
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(asked,), daemon=True).start()
    worker = Worker(log)
    while True:
        message = json.loads(asked.get())
        worker.native.errors.clear()
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            answer["said"] = getattr(worker, message["do"])(**message["with"])
        except EXPECTED as error:
            answer["failed"] = [*worker.native.errors, f"{type(error).__name__}: {error}"]
        if log.failed is not None:
            answer = {"id": message["id"], "unwritten": log.failed}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def listen(asked: queue.SimpleQueue[bytes]) -> None:
    """Hand over each line; end the process with its input, whatever it does."""
    for line in sys.stdin.buffer:
        asked.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
