"""The physics of LLM inference as pure functions; every formula names its source.

`request` adds the phases of one request up; `prefill` counts and fits prompt processing; `decode` predicts ms
per token from memory bandwidth; `overflow` adds what does not fit; `kv` sizes the KV cache and `layers` the
caches that differ by layer; `batching` prices sequences side by side; `speculation` says when a draft pays;
`quant` holds bits per weight; `reading` compares a stream with a reader; `devices` finds the facts behind a
device name in a log (`devices.toml`).
"""
