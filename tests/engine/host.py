"""Hosts the native llama-server of the `xllamacpp` wheel until standard input closes.

Run as a script in a process of its own: the server logs to that process's standard error, and its one
line of standard output is the address it listens on. Argument: a JSON object of `CommonParams` fields.
"""

from __future__ import annotations

import json
import sys

import xllamacpp


def main() -> None:
    """Start the server, say where it listens, and wait for the end of standard input."""
    options: dict[str, object] = json.loads(sys.argv[1])
    params = xllamacpp.CommonParams()
    params.model.path = options.pop("model")
    for name, value in options.items():
        setattr(params, name, value)
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
