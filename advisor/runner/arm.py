"""One side of a trial: how the model runs, and what it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.runner.settings import Settings
    from advisor.runner.workload import Workload


@dataclass(frozen=True, slots=True)
class Arm:
    """Settings and a workload together."""

    settings: Settings
    workload: Workload
