"""A check as JUnit XML, which most CI systems show: each limit is a test case, named alike in every run.

It is valid against the schema of Apache Ant's JUnit reports and that of Jenkins' xUnit plugin.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from advisor.report.check import allowed, details, samples, sentence, value

if TYPE_CHECKING:
    from advisor.check.model import Check, Outcome

_SUITE = "phasewise.check"
_NO_TIME = "0"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(check: Check) -> str:
    """The document; a limit that can't be told is an error, a broken one a failure."""
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        id="0",
        package="phasewise",
        name=_SUITE,
        timestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        hostname="localhost",
        tests=str(len(check.limits)),
        failures=str(check.count("broken")),
        errors=str(check.count("unknown")),
        time=_NO_TIME,
    )
    ElementTree.SubElement(suite, "properties")
    for one in check.limits:
        _case(suite, one)
    ElementTree.SubElement(suite, "system-out").text = _legal(f"{sentence(check)}\n{check.verdict}\n")
    ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _case(suite: ElementTree.Element, one: Outcome) -> None:
    case = ElementTree.SubElement(suite, "testcase", name=one.limit, classname=_SUITE, time=_NO_TIME)
    if one.state == "ok":
        return
    numbers = ", ".join(part for part in (value(one), allowed(one), samples(one)) if part)
    tag = "failure" if one.state == "broken" else "error"
    problem = ElementTree.SubElement(case, tag, message=_legal(f"{one.what}: {numbers}"), type=one.state)
    problem.text = _legal("\n".join(details(one)))


def _legal(text: str) -> str:
    """Without the characters that XML can't hold."""
    return _NOT_XML.sub("", text)
