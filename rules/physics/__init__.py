"""The physics of LLM inference as pure functions; every formula names its source.

`request` adds the phases of one request up; `prefill` counts and fits prompt processing; `decode` predicts ms
per token from memory bandwidth; `kv` sizes the KV cache; `quant` holds bits per weight; `reading` compares a
stream with a reader; `devices` finds the memory bandwidth behind a name in a log (facts in `devices.toml`).
"""
