"""A made fleet: the logs of six servers, a folder each; gpu-4 generates at half the speed of the others.

    python -m tests.advisor.fleet PICTURE.svg

draws what `--by host` says of it, for the manual.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.advisor.helpers import at_rates, phasewise, prefixed


def written_fleet(folder: Path) -> Path:
    """Write the logs below a folder, and return that."""
    rng = np.random.default_rng(1)
    for host in range(1, 7):
        asked = [
            at_rates(
                int(2_000 * np.exp(0.5 * rng.normal())),
                1_500 * float(np.exp(0.05 * rng.normal())),
                int(200 * np.exp(0.5 * rng.normal())) + 40,
                (22.0 if host == 4 else 45.0) * float(np.exp(0.05 * rng.normal())),
            )
            for _ in range(25)
        ]
        log = folder / f"gpu-{host}" / "server.log"
        log.parent.mkdir()
        log.write_text(prefixed(asked))
    return folder


if __name__ == "__main__":
    picture = Path(sys.argv[1]).resolve()
    with TemporaryDirectory(prefix="fleet-") as name:
        written_fleet(Path(name))
        phasewise("analyze", ".", "--by", "host", "--svg", picture, cwd=Path(name))
