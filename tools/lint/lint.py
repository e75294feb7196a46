#!/usr/bin/env python3
"""Checks the repository against its own rules, in seconds, with the Python of the system alone.

    tools/lint/lint.py [--root DIR] [--rule NAME]... [--list]

Prints one line a finding and ends with 1 if there are any. What is accepted in spite of a rule
stands, with its reason, in tools/lint/exemptions.txt. The rules are tested by lint_test.py: each
has a tree on which it must fail.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from findings import apply_exemptions, read_exemptions  # noqa: E402
from rules_includes import check_includes, check_public_headers_listed  # noqa: E402
from rules_names import check_names  # noqa: E402
from rules_patterns import (  # noqa: E402
    BANS,
    check_files,
    check_head_comment,
    check_patterns,
    check_python_sleep,
)
from rules_structure import check_duplicates, check_every_source_has_a_test  # noqa: E402
from source_tree import SourceTree  # noqa: E402

CHECKS = [
    check_includes,
    check_public_headers_listed,
    check_patterns,
    check_python_sleep,
    check_files,
    check_head_comment,
    check_names,
    check_every_source_has_a_test,
    check_duplicates,
]

RULES = sorted(
    {ban.rule for ban in BANS}
    | {
        "include-law",
        "public-headers",
        "include-guard",
        "file-length",
        "unfinished",
        "trailing-space",
        "head-comment",
        "names-exist",
        "untested",
        "duplicate-lines",
        "exemptions",
    }
)


def run(root: Path) -> list:
    tree = SourceTree(root)
    findings = [finding for check in CHECKS for finding in check(tree)]
    exemptions_path = root / "tools" / "lint" / "exemptions.txt"
    exemptions, malformed = read_exemptions(exemptions_path)
    return malformed + apply_exemptions(findings, exemptions, "tools/lint/exemptions.txt")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--rule", action="append", help="report this rule alone")
    parser.add_argument("--list", action="store_true", help="print the names of the rules")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(RULES))
        return 0
    unknown = set(arguments.rule or []) - set(RULES)
    if unknown:
        parser.error(f"no rule is called {', '.join(sorted(unknown))}; --list prints the names")
    start = time.monotonic()
    findings = run(arguments.root)
    if arguments.rule:
        findings = [finding for finding in findings if finding.rule in arguments.rule]
    for finding in sorted(findings, key=lambda f: (f.path, f.line)):
        print(finding)
    print(
        f"lint: {len(findings)} findings, {len(RULES)} rules, {time.monotonic() - start:.1f} s",
        file=sys.stderr,
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
