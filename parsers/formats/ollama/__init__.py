"""Ollama: its server log, the API's answers, and the text of ``ollama run --verbose``.

- `lines.py`: the server log's lines, from 0.1 to the newest.
- `launch.py`: what the command line that starts a model says.
- `prompts.py`: what was cut or cached.
- `clock.py`: when a line was printed.
- `models.py`: which models are loaded, and what each load cost whom.
- `machine.py`: devices, and the memory of a model; `unloads.py`: why one is unloaded.
- `access.py`: gin's access lines, and which task of the llama-server inside they are about.
- `bodies.py`: answers, as clients print them; those of the OpenAI API with `timings`: `../ollama_timings.py`.
- `host.py`: takes all lines but those about requests; `reader.py`: joins the rest to requests.
"""

from __future__ import annotations

from parsers.formats.base import Format
from parsers.formats.ollama import bodies, lines
from parsers.formats.ollama.reader import OllamaReader

FORMAT = Format(
    engine="ollama",
    title="Ollama (server log, API answers, run --verbose)",
    versions="0.1 and newer; timings of each request since 0.30",
    grain="request",
    identify=(
        b"[GIN] ",
        b'msg="Listening on ',
        b'msg="server config" env=',
        b"INFO server config env=",
        b": Listening on ",
        b'"starting llama-server" cmd=',
        b'"starting runner" cmd=',
        b'"starting llama server" cmd=',
        b"llama runner started in ",
        b'"loaded runners" count=',
        b'"truncating input prompt" limit=',
        b'"total_duration":',
        b"total duration: ",
        b'"fp_ollama"',
    ),
    lines=(*lines.LINES, *bodies.LINES),
    reader=OllamaReader,
    host=True,
    inside=("llama-server", "llama-cli"),
    splits="load, prefill, decode; none in 0.4 to 0.24",
    ends=("aborted", "failed"),
)
