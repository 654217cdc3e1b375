"""Says what pip-audit found: status 1 with an advisory, 3 if it could ask about no package at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(file: Path) -> int:
    """Print the advisories of a pip-audit result in JSON, and how many packages it is of."""
    try:
        told = json.loads(file.read_text(encoding="utf-8"))["dependencies"]
    except (OSError, ValueError):
        told = []
    known = [one for one in told if "vulns" in one]
    found = [(one, advisory) for one in known for advisory in one["vulns"]]
    for one, advisory in found:
        fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
        print(f"{one['name']} {one['version']}: {advisory['id']}, fixed in {fixed}")
    print(f"{len(known)} packages audited, {len(told) - len(known)} not")
    return 1 if found else 0 if known else 3


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
