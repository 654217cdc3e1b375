"""What a trial changes: the arm before and after, and one clear sentence for what can't be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import InputError
from advisor.options import Shape
from advisor.runner.arm import Arm
from advisor.runner.knobs import KNOBS, parse
from advisor.runner.settings import ALL_LAYERS, Settings
from advisor.runner.shapes import workload
from advisor.runner.workload import Ask, Segment, Workload
from rules import remedies

MODEL = Path("small.gguf")
CHAT = Arm(Settings(MODEL), workload(Shape.CHAT))
RAG = Arm(Settings(MODEL), workload(Shape.RAG))
SUMMARISE = Arm(Settings(MODEL), workload(Shape.SUMMARISE))


def given_texts(*texts: str) -> Arm:
    asks = tuple(Ask(f"line {n}", (Segment(f"line {n}", text=text),), 10) for n, text in enumerate(texts, 1))
    return Arm(Settings(MODEL), Workload("prompts.jsonl", asks))


def given_chats(*chats: tuple[tuple[str, str], ...]) -> Arm:
    asks = tuple(
        Ask(f"line {n}", (Segment(f"line {n}", text="", messages=chat),), 10)
        for n, chat in enumerate(chats, 1)
    )
    return Arm(Settings(MODEL), Workload("chats.jsonl", asks))


def sizes(arm: Arm) -> list[list[int | None]]:
    return [[segment.size for segment in ask.segments] for ask in arm.workload.asks]


def refused(*texts: str) -> str:
    with pytest.raises(InputError) as error:
        parse(*texts)
    return str(error.value)


# --- settings


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("context=8192", {"context": 8192}),
        ("num-ctx=8192", {"context": 8192}),
        ("batch=256", {"batch": 256}),
        ("ubatch=256", {"ubatch": 256}),
        ("ubatch=1024", {"ubatch": 1024}),
        ("batch=2048,ubatch=1024", {"ubatch": 1024, "batch": 2048}),
        ("threads=4", {"threads": 4, "threads_batch": 4}),
        ("threads-batch=8", {"threads_batch": 8}),
        ("threads-batch=8,threads=4", {"threads": 4, "threads_batch": 8}),
        ("flash=off", {"flash_attention": False}),
        ("kv=q8_0", {"kv_type_k": "q8_0", "kv_type_v": "q8_0", "flash_attention": True}),
        ("kv=f32", {"kv_type_k": "f32", "kv_type_v": "f32"}),
        ("kv-k=q4_0", {"kv_type_k": "q4_0"}),
        ("kv_v=q4_0", {"kv_type_v": "q4_0", "flash_attention": True}),
        ("gpu-layers=all", {"gpu_layers": ALL_LAYERS}),
        ("-ngl=0", {"gpu_layers": 0}),
        ("lookup=10", {"lookup": 10}),
        ("lookup=off", {"lookup": None}),
        ("draft=tiny.gguf", {"draft_model": Path("tiny.gguf")}),
        ("draft=off", {"draft_model": None}),
        ("model=a,b.GGUF", {"model": Path("a,b.GGUF")}),
        ("mlock=on", {"mlock": True}),
        ("UBATCH = 64 , mlock = on", {"ubatch": 64, "mlock": True}),
    ],
)
def test_settings(text: str, fields: dict[str, object]) -> None:
    assert parse(text).apply(CHAT) == replace(CHAT, settings=replace(CHAT.settings, **fields))  # type: ignore[arg-type]


def test_threads_follow_as_long_as_they_were_together() -> None:
    one = parse("threads=4").apply(CHAT)
    assert parse("threads=2").apply(one).settings.threads_batch == 2


def test_labels() -> None:
    change = parse("kv=q8_0, n-ubatch=64", "mlock=on")
    assert change.label == "kv=q8_0,ubatch=64,mlock=on"
    assert change.baseline(CHAT) == "flash=on"
    assert change.baseline(parse("flash=on").apply(CHAT)) == ""


@pytest.mark.parametrize(
    ("batch", "ubatch", "both"),
    [(None, 1024, None), (2048, 1024, 2048), (512, 1024, 1024), (512, 64, 512)],
)
def test_a_batch_grows_with_its_ubatch_on_both_sides(
    batch: int | None, ubatch: int, both: int | None
) -> None:
    base = replace(CHAT, settings=replace(CHAT.settings, batch=batch, ubatch=512))
    change = parse(f"ubatch={ubatch}")
    before, after = change.sides(base)
    assert (before.settings.batch, after.settings.batch) == (both, both)
    assert (before.settings.ubatch, after.settings.ubatch) == (512, ubatch)
    assert change.baseline(base) == ("batch=1024" if batch != both else "")


@pytest.mark.parametrize("text", ["ubatch=1024,batch=256", "batch=256,ubatch=1024"])
def test_a_batch_that_is_too_small(text: str) -> None:
    cut = parse("batch=256").apply(replace(CHAT, settings=replace(CHAT.settings, batch=512, ubatch=512)))
    assert (cut.settings.batch, cut.settings.ubatch) == (256, 256)  # as the engines cut it
    for arm in (CHAT, cut):
        with pytest.raises(InputError, match=rf"^{text}: needs batch=1024\.$"):
            parse(text).apply(arm)


def test_a_quantised_cache_is_compared_with_flash_attention_on_both_sides() -> None:
    before, after = parse("kv=q8_0").sides(CHAT)
    assert (before.settings.flash_attention, before.settings.kv_type_v) == (True, None)
    assert (after.settings.flash_attention, after.settings.kv_type_v) == (True, "q8_0")


def test_flash_attention_is_compared_with_the_opposite() -> None:
    before, after = parse("flash=on").sides(CHAT)
    assert (before.settings.flash_attention, after.settings.flash_attention) == (False, True)
    before, after = parse("flash=off").sides(CHAT)
    assert (before.settings.flash_attention, after.settings.flash_attention) == (True, False)


def test_flash_attention_that_is_asked_for_is_part_of_the_change() -> None:
    change = parse("kv=q8_0,flash=on")
    before, after = change.sides(CHAT)
    assert (change.baseline(CHAT), before) == ("flash=off", parse("flash=off").apply(CHAT))
    assert after.settings.flash_attention


def test_flash_attention_that_is_off() -> None:
    off = parse("flash=off").apply(CHAT)
    for arm in (CHAT, off):
        with pytest.raises(InputError, match=r"^kv=q8_0,flash=off: needs flash=on\.$"):
            parse("kv=q8_0,flash=off").apply(arm)
    before, after = parse("kv=q8_0").sides(off)
    assert (parse("kv=q8_0").baseline(off), before) == ("flash=on", parse("flash=on").apply(off))
    assert after.settings.flash_attention
    assert parse("kv-k=q8_0,flash=off").apply(CHAT).settings.kv_type_k == "q8_0"


def test_nothing_to_compare() -> None:
    with pytest.raises(InputError, match="output=100000: that is how it runs already"):
        parse("output=100000").sides(CHAT)


# --- what there isn't


def test_no_such_knob() -> None:
    assert refused("ubath=12").startswith(
        "ubath: no such knob. Did you mean ubatch? There are context, batch,"
    )
    assert refused("12=3").startswith("12: no such knob. There are ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("threads=0", "threads=0: threads takes a whole number from 1 to 1,024."),
        ("threads=-1", "threads takes a whole number"),
        ("threads=1.5", "threads takes a whole number"),
        ("threads=true", "threads takes a whole number"),
        ("threads=²", "threads takes a whole number"),
        ("threads=", "threads=: threads takes a whole number"),
        ("ctx=99999999999", "context takes a whole number from 1 to 10,000,000."),
        ("flash=1", "flash=1: flash takes on or off."),
        ("kv=q8", "kv takes f32, f16, bf16, q8_0"),
        ("ngl=-1", "gpu-layers takes all, or a whole number from 0"),
        ("lookup=0", "lookup takes off, or a whole number from 1 to 64."),
        ("draft=on", "draft takes off, or a GGUF file."),
        ("model=Q4_K_M", "model takes a GGUF file."),
        ("prefix=off", "prefix takes kept or broken."),
        ("prompt=0%", "prompt takes a share to keep"),
        ("prompt=-100%", "prompt takes a share to keep"),
        ("prompt=5/4", "prompt takes a share to keep"),
        ("prompt=4/0", "prompt takes a share to keep"),
        ("prompt=half", "prompt takes a share to keep"),
        ("output=0", "output takes a whole number"),
        ("", "nothing: write KNOB=VALUE"),
        ("kv", "kv: write KNOB=VALUE, such as ubatch=1024; there are context, batch, "),
        ("threads=1,", "threads=1,"),
        ("threads=1,n-threads=2", "threads=1 and threads=2: one knob can't be turned twice."),
    ],
)
def test_no_such_value(text: str, said: str) -> None:
    assert said in refused(text)


@given(st.sampled_from([name for knob in KNOBS for name in (knob.name, *knob.aliases)]), st.text(max_size=12))
def test_any_value_is_taken_or_refused_in_one_sentence(name: str, value: str) -> None:
    try:
        change = parse(f"{name}={value}")
    except InputError as error:
        said = str(error)
    else:
        again = parse(change.label)
        said = "." if again == change else again.label
    assert said.endswith(".")


def test_names_are_different() -> None:
    names = [name for knob in KNOBS for name in (knob.name, *knob.aliases)]
    assert len(names) == len(set(names))


# --- the prefix


def test_a_broken_prefix_shares_nothing() -> None:
    broken = parse("prefix=broken").apply(RAG)
    firsts = [ask.segments[0] for ask in broken.workload.asks]
    assert len({segment.name for segment in firsts}) == len(firsts) == 3
    assert [ask.segments[1:] for ask in broken.workload.asks] == [a.segments for a in RAG.workload.asks]
    assert parse("prefix=broken").apply(broken) == broken
    assert parse("prefix=kept").apply(broken) == RAG


def test_a_kept_prefix_is_compared_with_a_broken_one() -> None:
    change = parse("prefix=kept")
    assert change.baseline(RAG) == "prefix=broken"
    assert change.sides(RAG) == (parse("prefix=broken").apply(RAG), RAG)
    assert parse("prefix=broken").sides(RAG) == (RAG, parse("prefix=broken").apply(RAG))


@pytest.mark.parametrize("value", ["kept", "broken"])
def test_nothing_to_keep(value: str) -> None:
    for arm in (SUMMARISE, given_texts("one " * 40, "two " * 40), given_texts("alone")):
        with pytest.raises(InputError, match=r"no prompt of .* begins as the one before it does"):
            parse(f"prefix={value}").apply(arm)


def test_given_prompts_that_begin_alike() -> None:
    system = "You are a librarian who knows every book of this town by its first line. "
    texts = given_texts(system + "What is new?", system + "What is old?")
    chats = given_chats((("system", system), ("user", "a")), (("system", system), ("user", "b")))
    for arm in (texts, chats):
        before, after = parse("prefix=kept").sides(arm)
        assert after == arm
        assert [len(ask.segments) for ask in before.workload.asks] == [2, 2]


# --- prompts and answers


@pytest.mark.parametrize("value", ["50%", "4/8", "-50%", "50.0%"])
def test_half_of_what_is_not_fixed(value: str) -> None:
    half = parse(f"prompt={value}").apply(RAG)
    assert sizes(RAG)[0] == [384, 256, 256, 256, 256, 32]
    assert sizes(half) == [[192, 128, 128, 128, 128, 32]] * 3
    firsts = {ask.segments[0] for ask in half.workload.asks}
    assert len(firsts) == 1


def test_tokens_of_the_longest_prompt() -> None:
    asks = (
        Ask("long", (Segment("a", 800), Segment("q", 100, is_fixed=True)), 8),
        Ask("short", (Segment("b", 400), Segment("q", 100, is_fixed=True)), 8),
    )
    arm = Arm(Settings(MODEL), Workload("two", asks))
    assert sizes(parse("prompt=500").apply(arm)) == [[400, 100], [200, 100]]
    assert parse("prompt=5000").apply(arm) == arm
    with pytest.raises(InputError, match="prompt=100: 100 tokens of the longest prompt are fixed"):
        parse("prompt=100").apply(arm)


def test_a_given_prompt_is_cut_by_a_share() -> None:
    arm = given_texts("0123456789", "01")
    texts = [ask.segments[0].text for ask in parse("prompt=30%").apply(arm).workload.asks]
    assert texts == ["012", "0"]
    with pytest.raises(InputError, match="cut them by a share, such as prompt=50%"):
        parse("prompt=30").apply(arm)


def test_of_a_chat_the_history_is_cut() -> None:
    arm = given_chats((("system", "0123456789"), ("user", "abcd")), (("user", "abcd"),))
    cut = [ask.segments[0].messages for ask in parse("prompt=50%").apply(arm).workload.asks]
    assert cut == [(("system", "01234"), ("user", "abcd")), (("user", "ab"),)]


def test_prompts_of_which_all_is_fixed() -> None:
    arm = Arm(Settings(MODEL), Workload("fixed", (Ask("a", (Segment("q", 9, is_fixed=True),), 1),)))
    with pytest.raises(InputError, match="nothing of 'fixed' can be cut"):
        parse("prompt=50%").apply(arm)


def test_answers_are_capped() -> None:
    capped = parse("output=40").apply(CHAT)
    assert [ask.output_tokens for ask in capped.workload.asks] == [40, 40, 40]
    assert parse("output=500").apply(CHAT) == CHAT


# --- remedies


@pytest.mark.parametrize("remedy", remedies.remedy_ids())
def test_each_remedy_can_be_tried_or_says_why_not(remedy: str) -> None:
    data = remedies.load(remedy)
    values: dict[str, object] = dict.fromkeys(re.findall(r"\{(\w+)\}", str(data)), 4)
    values |= {"of": 8, "kv_type": "q8_0"}
    trial = remedies.fix(remedy, None, None, **values).trial
    assert (trial is None) == ("untried" in data)
    assert ("try" in data) != ("untried" in data)
    if trial is not None:
        assert parse(trial).label == trial


def test_a_remedy_whose_value_is_not_known_has_no_trial() -> None:
    assert remedies.fix("smaller-context", None, tokens="<longest prompt>", total=0).trial is None
    assert remedies.fix("smaller-context", None, tokens=4096, total=0).trial == "context=4096"
    assert remedies.untried("smaller-context") is None
    assert remedies.untried("smaller-quant") == "it needs another file: --try model=FILE.gguf"
