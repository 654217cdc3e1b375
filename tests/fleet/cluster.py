"""A Ray cluster of two nodes with a processor each, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.advisor.helpers import Ran, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
node = {"num_cpus": 1, "object_store_memory": 200_000_000, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=node)
cluster.add_node(num_cpus=1, object_store_memory=200_000_000)
print("at", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
_COMMAND = """
import sys
import advisor.crews.ray
from advisor.__main__ import main
stretch = sys.argv.pop(1)
advisor.crews.ray.STRETCH = int(stretch)
main()
"""


@contextmanager
def running(**more: str) -> Iterator[str]:
    """The cluster's address.

    Args:
        more: what its workers' environment holds besides.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(RAY_USAGE_STATS_ENABLED="0", **more),
    )
    try:
        assert process.stdout is not None
        yield next(line.split()[1] for line in process.stdout if line.startswith("at "))
    finally:
        process.communicate(timeout=60)


def on_ray(
    address: str,
    stretch: int,
    *arguments: str | Path,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Ran:
    """Run a command on the cluster, in stretches of so many bytes of a plain file."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, str(stretch), *(str(one) for one in arguments), "--on", "ray"],
        capture_output=True,
        cwd=cwd,
        env=environment(RAY_ADDRESS=address, **(env or {})),
        timeout=150,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode(), done.stdout)
