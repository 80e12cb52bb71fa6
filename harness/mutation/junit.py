"""A report as JUnit XML: one named case per mutant, one per probe, one for each unproven check."""

from __future__ import annotations

import xml.etree.ElementTree as ET  # written, never parsed

from harness.mutation.escape import xml_text
from harness.records.outcome import MutantResult, MutationReport, Outcome
from harness.report.text import findings_text

_FAILURES = (Outcome.SURVIVED, Outcome.WRONG_KILLER, Outcome.NOT_REACHED)
_MAX_NAME = 200  # characters of a title; viewers cut longer names


def junit(report: MutationReport) -> bytes:
    """Return the report as JUnit XML. A survivor is a failure; what could not be judged is an error; none is ever left out."""
    suite = ET.Element("testsuite", name=xml_text(f"draftproof mutate {report.subject}"))
    for result in report.results:
        _mutant(suite, result)
    for probe in report.probes:
        case = _case(suite, "probes", probe.id)
        if not probe.holds:
            _fault(case, "error", "PROBE", probe.message)
    for check in report.unproven:
        _fault(_case(suite, "unproven", check), "failure", "UNPROVEN", "no killed mutant names it as its killer")
    for kind, told in [("BASELINE", each) for each in report.baseline] + [("CATALOGUE", each) for each in report.problems]:
        _fault(_case(suite, kind.lower(), told[:_MAX_NAME]), "error", kind, told)
    for name in ("failure", "error", "skipped"):
        suite.set({"failure": "failures", "error": "errors"}.get(name, name), str(len(suite.findall(f"testcase/{name}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("time", f"{report.seconds:.3f}")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _mutant(suite: ET.Element, result: MutantResult) -> None:
    case = _case(suite, result.family, result.id)
    case.set("time", f"{result.seconds:.3f}")
    if result.outcome is Outcome.KILLED:
        return
    if result.outcome is Outcome.ACCEPTED:
        ET.SubElement(case, "skipped", message=xml_text(result.reason))
        return
    told = [result.title, f"at {result.place.file}:{result.place.line}", f"why: {result.why}"]
    told += [f"killers: {', '.join(result.killers)}", findings_text(result.findings)]
    kind = "failure" if result.outcome in _FAILURES else "error"
    _fault(case, kind, result.outcome.value, result.reason, "\n".join(told).rstrip())


def _case(suite: ET.Element, family: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=xml_text(f"mutants.{family}"), name=xml_text(name))


def _fault(case: ET.Element, kind: str, name: str, message: str, text: str = "") -> None:
    ET.SubElement(case, kind, type=name, message=xml_text(f"{name}: {message}")).text = xml_text(text or message)
