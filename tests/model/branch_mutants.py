"""Breaks error branches one at a time and says which of them no test misses.

    tools/dev mutants --branches [--only REGEX] [--kinds A,B] [--seconds N] [--list] FOLDER...

A branch is an `if` whose condition speaks of a failure (`!x.ok()`, a null pointer, a status code) and which returns,
rolls back or goes another way. Each is broken in two ways, where the text allows it:

    ignored   the condition is false: the failure goes by unseen
    always    the condition is true: shows that the way without a failure is tested

and each statement of a roll-back (a call in a failing branch) is taken out by itself:

    dropped   the statement is gone

A mutant is compiled by itself, the tests are linked with it in the place of the library's own object, and the first
program that fails kills it. One that does not compile is not counted; one that hangs is killed by time. Survivors are
printed with file, line and text. The source tree is not touched: the changed file lies in a temporary folder.
"""

import argparse
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What tests a folder: programs, with arguments, the quickest and the most telling first.
TESTS = {
    "allocator/core": [
        ["tests/unit/core/core_structures_test"],
        ["tests/unit/core/core_parts_test"],
        ["tests/unit/core/core_allocator_test"],
        ["tests/model/model_test"],
        ["tests/cases/cases_test"],
    ],
    "allocator/device/sim": [
        ["tests/unit/device/device_unit_test", "--gtest_filter=-*EachRule*"],
        ["tests/contract/contract_test", "--gtest_filter=*/Sim"],
    ],
    "allocator/record": [
        ["tests/unit/record/record_test"],
    ],
}

FAILURE = re.compile(
    r"!\s*[\w.>()\-\[\]*]+\.ok\(\)|\.ok\(\)|StatusCode::|Outcome::k(Failed|Miss)|[=!]= nullptr|End::kExhausted|\.code\b"
)


def folder_of(path):
    return max((f for f in TESTS if path.startswith(f + "/")), key=len)


def matching(text, at, opening, closing):
    """The place behind the bracket that closes the one at `at`, strings and comments aside."""
    depth = 0
    i = at
    while i < len(text):
        two = text[i : i + 2]
        if two == "//":
            i = text.index("\n", i)
            continue
        if text[i] in "\"'" and not (text[i] == "'" and text[i - 1].isalnum()):
            quote = text[i]
            i += 1
            while text[i] != quote:
                i += 2 if text[i] == "\\" else 1
        elif text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    raise ValueError("no closing bracket")


def mutants_of(path):
    """Yields (line, kind, what, text of the whole file)."""
    text = (ROOT / path).read_text()
    for match in re.finditer(r"^[ \t}]*(?:else )?if (?:constexpr )?\(", text, re.M):
        begin = match.end() - 1
        try:
            end = matching(text, begin, "(", ")")
        except ValueError:
            continue
        inside = text[begin + 1 : end - 1]
        condition = inside
        initial = ""
        if ";" in inside:
            cut = inside.rindex(";") + 1
            initial, condition = inside[:cut] + " ", inside[cut:].strip()
        if "constexpr" in match.group(0) or "mutated(" in condition:
            continue
        line = text.count("\n", 0, match.start()) + 1
        rest = text[end:].lstrip(" ")
        body_begin = end + len(text[end:]) - len(rest)
        if rest.startswith("{"):
            body_end = matching(text, body_begin, "{", "}")
        else:
            body_end = text.index(";", body_begin) + 1
        body = text[body_begin:body_end]
        if not FAILURE.search(condition):
            continue
        what = " ".join(condition.split())
        # The condition stays in the text, so that what it names is still used.
        for kind, value in (("ignored", "((void)0, false) && "), ("always", "((void)0, true) || ")):
            yield line, kind, what, text[
                : begin + 1
            ] + initial + value + "(" + condition + ")" + text[end - 1 :]
        for statement in re.finditer(
            r"^[ \t]*([\w:.>\-\[\]]+(?:\(|\.|->)[^;{}]*\([^;{}]*\);)[ \t]*(?://.*)?$", body, re.M
        ):
            words = statement.group(1)
            if re.match(
                r"(return|const|auto|static_cast|LEVEE_|if|for|while|break|continue)\b", words
            ):
                continue
            if "=" in words.split("(")[0]:
                continue
            first = body_begin + statement.start(1)
            last = body_begin + statement.end(1)
            yield (
                text.count("\n", 0, first) + 1,
                "dropped",
                " ".join(words.split()),
                text[:first] + "if (false) { " + words + " }" + text[last:],
            )


class Build:
    """Compiles one file of a library anew and links the test programs against that object, before the library."""

    def __init__(self, folder, work):
        self.folder = folder
        self.work = work
        commands = json.loads((folder / "compile_commands.json").read_text())
        self.compile_commands = {}
        for entry in commands:
            name = (
                str(pathlib.Path(entry["file"]).resolve().relative_to(ROOT))
                if entry["file"].startswith(str(ROOT))
                else ""
            )
            if name and "mutants" not in entry["command"]:
                self.compile_commands.setdefault(name, entry)
        self.link_lines = {}

    def object_for(self, path, text):
        """The object file of the text, or None if it does not compile."""
        entry = self.compile_commands[path]
        source = self.work / pathlib.Path(path).name
        source.write_text(text)
        out = self.work / "mutant.o"
        words = shlex.split(entry["command"])
        if words[0].endswith("ccache"):
            words = words[1:]
        cut = words.index("-o")
        words = words[:cut] + ["-o", str(out), "-c", str(source)]
        words = [
            w
            for w in words
            if w not in ("-O3", "-O2", "-Werror", "-MD")
            and not w.startswith("-MT")
            and not w.startswith("-MF")
        ]
        words = [w for w in words if not w.endswith(".o.d") and not (w.endswith(".cc.o"))]
        words += ["-O1", "-w"]
        done = subprocess.run(words, cwd=entry["directory"], capture_output=True, check=False)
        return out if done.returncode == 0 else None

    def link(self, program, obj):
        if program not in self.link_lines:
            asked = subprocess.run(
                ["ninja", "-C", str(self.folder), "-t", "commands", "-s", program],
                capture_output=True,
                text=True,
                check=True,
            )
            self.link_lines[program] = asked.stdout.strip().splitlines()[-1]
        line = self.link_lines[program]
        line = (
            line[line.index("&&") + 2 :].rsplit("&&", 1)[0].strip()
            if line.startswith(":")
            else line
        )
        words = shlex.split(line)
        out = self.work / "mutant_program"
        words[words.index("-o") + 1] = str(out)
        # Before the libraries: the linker takes the first definition, and the archive's member is then not looked at.
        words.insert(words.index("-o"), str(obj))
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        return out


def is_killed(build, path, obj):
    for program, *arguments in TESTS[folder_of(path)]:
        linked = build.link(program, obj)
        try:
            done = subprocess.run(
                [str(linked), "--gtest_fail_fast", "--gtest_brief=1", *arguments],
                cwd=build.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return program + " (time)"
        if done.returncode != 0:
            return program
    return ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=["allocator/core"])
    parser.add_argument("--build", default="build/ci")
    parser.add_argument("--only", default="")
    parser.add_argument("--kinds", default="ignored,dropped,always")
    parser.add_argument(
        "--seconds",
        type=float,
        default=1e9,
        help="stop after that long; what is looked at is drawn at random",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--log", default="")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    everything = []
    for folder in arguments.folders:
        for file in sorted((ROOT / folder).glob("*.cc")):
            path = str(file.relative_to(ROOT))
            if not re.search(arguments.only, path):
                continue
            everything += [(path, *mutant) for mutant in mutants_of(path) if mutant[1] in kinds]
    if arguments.list:
        for path, line, kind, what, _ in everything:
            print(f"{path}:{line}: {kind}: {what}")
        print(f"{len(everything)} mutants")
        return 0
    random.Random(arguments.seed).shuffle(everything)
    began = time.monotonic()
    counts = {"killed": 0, "survived": 0, "no program": 0}
    log = (
        open(arguments.log, "a", encoding="utf-8") if arguments.log else sys.stdout
    )  # noqa: SIM115
    with tempfile.TemporaryDirectory() as work:
        build = Build((ROOT / arguments.build).resolve(), pathlib.Path(work))
        for path, line, kind, what, text in everything:
            if time.monotonic() - began > arguments.seconds:
                break
            obj = build.object_for(path, text)
            if obj is None:
                counts["no program"] += 1
                continue
            by = is_killed(build, path, obj)
            counts["killed" if by else "survived"] += 1
            print(
                f"{'killed by ' + by if by else 'SURVIVED'}: {path}:{line}: {kind}: {what}",
                file=log,
                flush=True,
            )
    looked = sum(counts.values())
    print(
        f"{looked} of {len(everything)} mutants: "
        + ", ".join(f"{n} {name}" for name, n in counts.items()),
        file=log,
        flush=True,
    )
    return 1 if counts["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
