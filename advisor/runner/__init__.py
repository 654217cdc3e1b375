"""The bundled runner: measures prefill and decode on this machine, and tries a fix before it is believed.

An *engine* runs a model in a process of its own and says what each request took. A *workload* is what it is
asked. An *arm* is both together: a trial measures two of them in turn, each turn in a fresh process.
"""
