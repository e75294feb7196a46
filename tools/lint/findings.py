"""What a rule reports, and the list of findings that are accepted with a reason."""

from __future__ import annotations

import dataclasses
import fnmatch
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Finding:
    rule: str
    path: str
    line: int  # from 1; 0 when the finding is about the whole file
    message: str
    text: str = ""  # the offending line, for exemptions that name a part of it

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: [{self.rule}] {self.message}"


@dataclasses.dataclass
class Exemption:
    rule: str
    path_glob: str
    fragment: str
    reason: str
    line: int
    used: bool = False

    def covers(self, finding: Finding) -> bool:
        return (
            finding.rule == self.rule
            and fnmatch.fnmatch(finding.path, self.path_glob)
            and (self.fragment == "*" or self.fragment in finding.text)
        )


def read_exemptions(path: Path) -> tuple[list[Exemption], list[Finding]]:
    """Lines `rule | path or glob | part of the line or * | reason`; a line without a reason is a finding."""
    exemptions, findings = [], []
    if not path.exists():
        return exemptions, findings
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 4 or not all(fields):
            findings.append(
                Finding(
                    "exemptions",
                    path.name,
                    number,
                    "write: rule | path | part of the line or * | reason",
                )
            )
            continue
        exemptions.append(Exemption(*fields, line=number))
    return exemptions, findings


def apply_exemptions(
    findings: list[Finding], exemptions: list[Exemption], name: str
) -> list[Finding]:
    """The findings that nothing covers, and one for each exemption that covers nothing, so that the list cannot rot."""
    kept = []
    for finding in findings:
        covering = [e for e in exemptions if e.covers(finding)]
        for exemption in covering:
            exemption.used = True
        if not covering:
            kept.append(finding)
    for exemption in exemptions:
        if not exemption.used:
            kept.append(
                Finding(
                    "exemptions",
                    name,
                    exemption.line,
                    f"the exemption of {exemption.path_glob} from {exemption.rule} covers nothing; remove it",
                )
            )
    return kept
