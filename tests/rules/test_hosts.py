"""What a host is called, as far as names of logs and labels of lines tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.hosts import Place, hosts


def named(*paths: str) -> tuple[str, list[str | None]]:
    naming, names = hosts([(path, None) for path in paths])
    return naming, [names[path, None] for path in paths]


def labelled(*labels: str | None, source: str = "all.log") -> tuple[str, list[str | None]]:
    naming, names = hosts([(source, label) for label in labels])
    return naming, [names[source, label] for label in labels]


@pytest.mark.parametrize(
    ("paths", "naming", "names"),
    [
        (["logs/gpu01/server.log", "logs/gpu02/server.log"], "folder", ["gpu01", "gpu02"]),
        (["logs/gpu01/a.log", "logs/gpu01/b.log", "logs/gpu02/a.log"], "folder", ["gpu01", "gpu01", "gpu02"]),
        (["logs/gpu01.log", "logs/gpu02.log"], "file", ["gpu01", "gpu02"]),
        (["gpu-1.log", "gpu-2.log"], "file", ["gpu-1", "gpu-2"]),
        (["s.log", "s.log.1", "s.log.2.gz", "s-2026-11-29.log.zst", "s.log-20261129"], "file", ["s.log"] * 5),
        (
            ["2026-11-28/gpu1.log", "2026-11-29/gpu1.log", "2026-11-29/gpu2.log"],
            "file",
            ["gpu1"] * 2 + ["gpu2"],
        ),
        (["C:\\logs\\a\\s.log", "C:\\logs\\b\\s.log"], "folder", ["a", "b"]),
        (["s3://bucket/eu/gpu1/s.log", "s3://bucket/us/gpu1/s.log"], "folder", ["eu", "us"]),
        (
            ["pods/llama_a_1/server/0.log", "pods/llama_b_2/server/0.log"],
            "folder",
            ["llama_a_1", "llama_b_2"],
        ),
        (["s.log", "old/s.log"], "folder", [".", "old"]),
        (["ips/10.0.0.5", "ips/10.0.0.6.gz"], "file", ["10.0.0.5", "10.0.0.6"]),
        (["vllm-10.0.0.5-20261129", "vllm-10.0.0.6"], "file", ["vllm-10.0.0.5", "vllm-10.0.0.6"]),
        (["10.0.0.5.log", "10.0.0.5.log.1", "10.0.0.6.log"], "file", ["10.0.0.5"] * 2 + ["10.0.0.6"]),
        (["-"], "file", ["standard input"]),
        (["only.log"], "file", ["only.log"]),
    ],
)
def test_hosts_are_what_differs_between_the_names_of_logs(
    paths: list[str], naming: str, names: list[str]
) -> None:
    assert named(*paths) == (naming, names)


def test_containers_of_one_log_are_hosts_and_ports_are_not() -> None:
    assert labelled("llama-0/server", "llama-1/server") == ("label", ["llama-0", "llama-1"])
    assert labelled("llama-1", "llama-2", None) == ("label", ["llama-1", "llama-2", None])
    assert labelled("52001", "52002", None) == ("file", ["all.log"] * 3)


def test_ray_names_addresses() -> None:
    labels = ["Replica pid=12, ip=10.0.0.1", "Replica pid=13, ip=10.0.0.1", "Replica pid=9, ip=10.0.0.2"]
    assert labelled(*labels) == ("address", ["10.0.0.1", "10.0.0.1", "10.0.0.2"])


def test_the_same_container_in_two_files_may_be_two_machines() -> None:
    naming, names = hosts([("a/c.log", "web"), ("a/c.log", "llm"), ("b/c.log", "llm")])
    assert naming == "file and label"
    assert list(names.values()) == ["a web", "a llm", "b llm"]


def test_only_files_that_have_labels_are_called_by_them() -> None:
    places: list[Place] = [
        ("a/s.log", None),
        ("b/s.log", None),
        ("c/compose.log", "llm"),
        ("c/compose.log", "web"),
    ]
    assert list(hosts(places)[1].values()) == ["a", "b", "c llm", "c web"]
    unlabelled = hosts([*places, ("c/compose.log", None)])[1]
    assert unlabelled["c/compose.log", None] is None

    of_ray: list[Place] = [("a/ray.log", f"Replica pid=1, ip=10.0.0.{n}") for n in (1, 2)]
    assert list(hosts([*of_ray, ("b/s.log", None)])[1].values()) == ["10.0.0.1", "10.0.0.2", "b"]


@given(st.lists(st.tuples(st.text(max_size=12), st.none() | st.text(max_size=6)), max_size=6))
def test_any_names_are_taken_and_order_does_not_matter(places: list[Place]) -> None:
    _, names = hosts(places)
    assert set(names) == set(places)
    assert hosts(places[::-1])[1] == names
