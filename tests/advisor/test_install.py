"""A fresh environment: how long `pip install` takes, what it brings, and that the result works anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

import advisor
from tests.advisor.helpers import ROOT, SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.install

LIMIT_S = 60
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class Installed(NamedTuple):
    """The environment, and how long the install took."""

    python: Path
    command: Path
    took_s: float


def clean_environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OURS} | more


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("install") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    scripts = home / ("Scripts" if sys.platform == "win32" else "bin")
    python = scripts / ("python.exe" if sys.platform == "win32" else "python")
    started = time.monotonic()
    done = subprocess.run(
        [python, "-m", "pip", "install", "--only-binary", ":all:", "--no-input", str(ROOT)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Installed(python, scripts / "phasewise", time.monotonic() - started)


def phasewise(
    installed: Installed, *arguments: str | Path, cwd: Path, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [installed.command, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=clean_environment(PYTHONIOENCODING="utf-8", **env),
        check=False,
    )


def test_it_installs_fast_and_from_wheels_alone(installed: Installed) -> None:
    assert installed.took_s < LIMIT_S


def test_it_brings_three_packages_and_their_data(installed: Installed) -> None:
    listed = subprocess.run(
        [installed.python, "-m", "pip", "show", "--files", "phasewise"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    )
    files = [line.strip() for line in listed.stdout.split("Files:")[1].splitlines() if line.strip()]
    tops = {file.replace("\\", "/").split("/")[0] for file in files}
    assert {top for top in tops if not top.startswith(("phasewise-", ".."))} == {
        "advisor",
        "parsers",
        "rules",
    }
    for folder in ("advisor", "rules"):
        data = {
            p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.suffix in (".j2", ".toml")
        }
        assert data
        assert data <= {file.replace("\\", "/") for file in files}


def test_the_version(installed: Installed, tmp_path: Path) -> None:
    ran = phasewise(installed, "--version", cwd=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"phasewise {advisor.__version__}\n", "")
    asked = "import importlib.metadata as m; print(m.version('phasewise'))"
    known = subprocess.run([installed.python, "-c", asked], capture_output=True, text=True, check=True)
    assert known.stdout.strip() == advisor.__version__


@pytest.mark.parametrize("log", sorted(SAMPLES.glob("*.log")), ids=lambda path: path.stem)
def test_the_samples_from_an_empty_folder(installed: Installed, tmp_path: Path, log: Path) -> None:
    page = phasewise(installed, log, cwd=tmp_path)
    assert (page.returncode, page.stderr) == (0, "")
    assert "THE ANSWER" in page.stdout
    data = json.loads(phasewise(installed, log, "--format", "json", cwd=tmp_path).stdout)
    assert data["sources"][0]["engine"]
    assert not any(caveat["id"] == "error" for caveat in data["caveats"])
    assert "## The answer" in phasewise(installed, log, "--format", "md", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("file", "package"),
    [("rules/__init__.py", "rules"), ("parsers/__init__.py", "parsers"), ("rules.py", "rules")],
)
def test_another_package_of_the_same_name(
    installed: Installed, tmp_path: Path, file: str, package: str
) -> None:
    other = tmp_path / "other" / file
    other.parent.mkdir(parents=True)
    other.write_text("raise RuntimeError('this is not phasewise')\n")
    ran = phasewise(installed, "--version", cwd=tmp_path, PYTHONPATH=str(tmp_path / "other"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    for word in (f"'{package}'", str(tmp_path / "other"), "pipx install phasewise"):
        assert word in ran.stderr


def test_a_folder_of_that_name_where_it_runs_does_no_harm(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "__init__.py").write_text("raise RuntimeError\n")
    assert phasewise(installed, "--version", cwd=tmp_path).returncode == 0
