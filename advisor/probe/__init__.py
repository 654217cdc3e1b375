"""Asks a running server a few bounded questions, and separates queue, prefill and decode by how answers come.

- `plan.py`: which requests, and why these;
- `target.py`: who answers, with which model, and how it wants to be asked;
- `client.py`: one request, with the moments its tokens came and what the server says of it;
- `asking.py`: the requests one after the other or together, until the end or Ctrl-C;
- `prefill.py`: the curve through the times to the first token; `waiting.py`: who waited;
- `separate.py`: what the answers say of each phase;
- `found.py`: all of it, with what can't be told and what to do next; `result.py`: its keys;
- `rows.py`: the requests as rows.
"""
