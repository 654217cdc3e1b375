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
import os, signal, sys
from pathlib import Path
import advisor.crews.ray
from advisor.__main__ import main
from advisor.crews.ray_worker import read_stretch
stretch, deaths = sys.argv.pop(1), sys.argv.pop(1)

def dying(stretch, formats):
    read = read_stretch(stretch, formats)
    try:
        (Path(deaths) / ("later" if stretch.task.begin else "first")).touch(exist_ok=False)
    except FileExistsError:
        return read
    os.kill(os.getpid(), signal.SIGKILL)

advisor.crews.ray.STRETCH = int(stretch)
if deaths:
    advisor.crews.ray.read_stretch = dying
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
    deaths: Path | None = None,
) -> Ran:
    """Run a command on the cluster.

    Args:
        address: the cluster's.
        stretch: bytes of a plain file that one task reads.
        arguments: of the command.
        cwd: where it runs.
        env: what its environment holds besides.
        deaths: an empty folder, for the workers that kill themselves when they have read one: two, of which
            the first had the beginning of a file and the other one what came later in a file.
    """
    given = (stretch, deaths or "", *arguments, "--on", "ray")
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *(str(one) for one in given)],
        capture_output=True,
        cwd=cwd,
        env=environment(RAY_ADDRESS=address, **(env or {})),
        timeout=150,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode(), done.stdout)
