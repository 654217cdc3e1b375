"""What a workload's prompts share, and that made text is the same everywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.options import Shape
from advisor.runner.shapes import workload
from advisor.runner.workload import Ask, Segment, Workload, common, prose, tokenised

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Words:
    """A tokeniser of words; what of an engine a workload asks for."""

    def tokens(self, text: str) -> list[int]:
        return [hash(word) for word in text.split()]

    def chat_text(self, messages: Sequence[dict[str, str]]) -> str:
        return " ".join(f"<{m['role']}> {m['content']}" for m in messages)


@pytest.mark.parametrize("shape", Shape)
def test_prompts_have_their_sizes_and_share_what_they_name(shape: Shape) -> None:
    asked = workload(shape)
    prompts = tokenised(asked, _Words())  # type: ignore[arg-type]
    before: tuple[Segment, ...] = ()
    for prompt in prompts:
        segments = prompt.ask.segments
        assert len(prompt.tokens) == sum(segment.size or 0 for segment in segments)
        kept = 0 if prompt.ask.is_fresh else common(before, segments)
        assert prompt.shared == sum(segment.size or 0 for segment in segments[:kept])
        before = segments
    assert prompts[0].shared == 0


def test_an_agent_s_prompt_holds_the_one_before() -> None:
    prompts = tokenised(workload(Shape.AGENT), _Words())  # type: ignore[arg-type]
    assert all(b.tokens[: len(a.tokens)] == a.tokens for a, b in pairwise(prompts))
    assert [p.shared for p in prompts[1:]] == [len(p.tokens) for p in prompts[:-1]]


@given(st.text("abc ", min_size=1, max_size=12), st.text("abc ", min_size=1, max_size=12))
def test_made_text_is_the_same_for_a_name_and_another_for_another(one: str, other: str) -> None:
    assert prose(one, 400) == prose(one, 400)
    assert len(prose(one, 400)) >= 400
    assert (prose(one, 400) == prose(other, 400)) == (one == other)


def test_a_chat_goes_through_the_template() -> None:
    chat = Segment("line 1", messages=(("system", "be brief"), ("user", "hello there")))
    (prompt,) = tokenised(Workload("file", (Ask("line 1", (chat,), 8),)), _Words())  # type: ignore[arg-type]
    assert len(prompt.tokens) == 6
