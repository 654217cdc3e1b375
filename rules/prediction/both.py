"""What a change does to both phases alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.prediction.given import Expected
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.prediction.given import Facts, Host


def common_effects(was: Facts, then: Facts) -> Iterator[Expected]:
    """What no formula tells of either phase."""
    if was.flash_attention != then.flash_attention:
        yield Expected(None, "what flash attention saves depends on the kernels of the build")
    if was.layers_on_gpu != then.layers_on_gpu:
        yield Expected(None, "what the GPU saves depends on both devices, of which one was not measured")
    if was.speculation != then.speculation:
        yield Expected(None, "how often drafted tokens are right is only known when they were tried")


def by_threads(one: int | None, other: int | None, facts: Facts, host: Host) -> Expected:
    """Computing takes turns no longer: 1 / threads, up to the cores; synchronising keeps it from that."""
    if one is None or other is None:
        return Expected(None, "how many threads the engine takes by itself is not known")
    if facts.layers_on_gpu != 0:
        return Expected(None, "no formula tells what threads do beside a GPU")
    before, then = host.working(one), host.working(other)
    if before == then:
        return Expected(1.0, f"threads beyond the {host.physical_cores} cores compute nothing more")
    return Expected(before / then, f"computed by {plural(then, 'core')}, not {before}", "at_most")
