"""The requests of a plan, step by step; what came is kept when something breaks or Ctrl-C is pressed."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.errors import InputError
from advisor.probe.client import NoSuchPathError, NoUsageError, ProbeError, TooLongError, ask
from advisor.probe.plan import AT_ONCE, CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from advisor.probe.client import Sample
    from advisor.probe.plan import Plan, Planned
    from advisor.probe.target import Target
    from advisor.redact import Plain
    from advisor.sources.served.web import Web

    Tell = Callable[[Sequence[Planned]], None]

_LOOK_S = 0.2
_TEMPLATE_TOKENS = 16
_LEAST_CHARACTERS, _MOST_CHARACTERS = 0.5, 12.0


@dataclass(slots=True)
class Asked:
    """What came of a plan.

    Attributes:
        target: as it was asked at last.
        samples: what was measured; the warm-up is not in it.
        too_long: lengths that did not fit the context.
        fault: why it ended early, a sentence; ``None`` where it did not.
        is_interrupted: Ctrl-C ended it.
    """

    target: Target
    samples: list[Sample] = field(default_factory=list)
    too_long: dict[int, str] = field(default_factory=dict)
    fault: str | None = None
    is_interrupted: bool = False

    def shown(self, words: Plain) -> Asked:
        """The same with the server's texts as they may be shown."""
        target, texts = self.target, words.text
        return replace(
            self,
            target=replace(
                target,
                model=target.model and words.model(target.model),
                version=target.version and words.version(target.version),
            ),
            samples=[
                replace(
                    one,
                    model=one.model and words.model(one.model),
                    request_id=one.request_id and texts(one.request_id),
                    finish_reason=one.finish_reason and texts(one.finish_reason),
                )
                for one in self.samples
            ],
            too_long={tokens: texts(why) for tokens, why in self.too_long.items()},
        )


def ask_all(
    target: Target, plan: Plan, connect: Callable[[], Web], tell: Callable[[Sequence[Planned]], None]
) -> Asked:
    """Ask all of a plan.

    Args:
        target: whom.
        plan: what.
        connect: gives a connection; each request that runs at once has its own.
        tell: is told what is asked next, at once.

    Raises:
        InputError: the very first request got no answer.
    """
    asked = Asked(target)
    webs = [connect() for _ in range(AT_ONCE)]
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="phasewise probe")
    try:
        first, *rest = plan.steps()
        tell(first)
        asked.target, warm = _warmed(target, first[0], webs[0], pool, plan.output)
        characters = _characters(warm)
        for step in rest:
            if step[0].tokens in asked.too_long:
                continue
            tell(step)
            target = asked.target
            jobs = [
                pool.submit(ask, web, target, one, characters, plan.output)
                for web, one in zip(webs, step, strict=False)
            ]
            _keep(jobs, asked, step[0])
            if asked.fault is not None:
                break
    except KeyboardInterrupt:
        asked.is_interrupted = True
    finally:
        for web in webs:
            web.cut()
        pool.shutdown(cancel_futures=True)
        for web in webs:
            web.close()
    return asked


def _keep(jobs: Sequence[Future[Sample]], asked: Asked, one: Planned) -> None:
    """Keep what a step gave, and what went wrong with it."""
    _await(jobs)
    for job in jobs:
        try:
            asked.samples.append(job.result())
        except TooLongError as error:
            asked.too_long[one.tokens] = str(error)
        except (ProbeError, InputError) as error:
            asked.fault = asked.fault or str(error).rstrip(".")


def _warmed(
    target: Target, one: Planned, web: Web, pool: ThreadPoolExecutor, output: int
) -> tuple[Target, Sample]:
    """The first answer, and how it was to be asked for.

    Raises:
        InputError: none came.
    """
    for _ in range(3):
        job = pool.submit(ask, web, target, one, CHARACTERS, output)
        _await([job])
        try:
            return target, job.result()
        except NoSuchPathError:
            target = target.by_completions()
        except NoUsageError:
            target = target.without_usage()
        except ProbeError as error:
            raise InputError(f"{web.name}: {error}.") from None
    raise InputError(f"{web.name}: it takes none of the ways to ask that are known.")


def _await(jobs: Sequence[Future[Sample]]) -> None:
    """Wait in short turns: Windows can't interrupt a long one."""
    while wait(jobs, _LOOK_S).not_done:
        pass


def _characters(warm: Sample) -> float:
    """Of a token of this model, by its first prompt; some of its tokens are the chat template's."""
    if not warm.prompt_tokens:
        return CHARACTERS
    told = len(warm.planned.text(CHARACTERS)) / max(warm.prompt_tokens - _TEMPLATE_TOKENS, 1)
    return min(max(told, _LEAST_CHARACTERS), _MOST_CHARACTERS)
