"""Breaks every error branch of the library, one at a time; each time a test must fail.

    tools/dev mutants --branches [--only REGEX] [--kinds A,B] [--list] [--verbose] [FOLDER...]

What a branch is and how it is broken: branch_sites.py. A folder is compiled once, with a switch in each of its branches
(branch_programs.py). The tests run once with all switches off and tell which test case comes to which switch in a state
in which it would make a difference. Then each mutant is switched on for the cases that reach it, the quickest first,
until one fails, ends by a signal or exceeds its time: that kills the mutant. A mutant which no case reaches is reported
without a run.

Survivors are printed with file, line and text, and make the exit status 1, unless equivalent.txt lists them: mutants
with which no program can tell the difference, each with the reason. An entry of the list that is killed, or that
fits no mutant, is an error too. The source tree is not touched.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

from branch_programs import HERE, ROOT, Folder, Program, PythonTests

SIMGPU = ["tools/simgpu/run", "--gpu", "8GiB,count=2", "--judge", "count", "--"]
ONE_SIMGPU = ["tools/simgpu/run", "--gpu", "4GiB", "--judge", "count", "--"]
WITH_RUNTIME = "tests/unit/c_api/process_runtime_test"

# What tests a folder.
PROGRAMS = {
    "allocator/core": [
        Program("tests/unit/core/core_structures_test"),
        Program("tests/unit/core/core_parts_test"),
        Program("tests/unit/core/core_faults_test"),
        Program("tests/unit/core/core_host_memory_test"),
        Program("tests/unit/core/core_allocator_test"),
        Program("tests/hotpath/core_hotpath_test"),
        Program("tests/cases/cases_test"),
        Program("tests/model/model_test"),
        Program("tests/stress/core_stress_test"),
    ],
    "allocator/record": [
        Program("tests/unit/record/record_test"),
    ],
    "allocator/activity": [
        Program("tests/unit/activity/activity_test"),
        # A process that has CUPTI on its library path.
        Program("tests/abi/c_api_calls_test", prefix=SIMGPU, libraries_of=WITH_RUNTIME),
    ],
    "allocator/analysis": [
        Program("tests/unit/analysis/analysis_test"),
    ],
    "allocator/export": [
        Program("tests/unit/export/export_test"),
    ],
    "allocator/c_api": [
        Program("tests/unit/c_api/config_reader_test"),
        Program("tests/unit/c_api/process_runtime_test"),
        # They are linked to the shared library, which keeps to itself what a file with switches needs.
        Program("tests/unit/c_api/c_abi_test", libraries_of=WITH_RUNTIME),
        Program("tests/abi/c_api_breaker_test", prefix=ONE_SIMGPU, libraries_of=WITH_RUNTIME),
        Program("tests/abi/c_api_calls_test", prefix=SIMGPU, libraries_of=WITH_RUNTIME),
        Program("tests/abi/c_api_lost_test", prefix=ONE_SIMGPU, libraries_of=WITH_RUNTIME),
    ],
    "torch_plugin": [
        PythonTests("tests/torch/test_main_door.py"),
        PythonTests("tests/torch/test_devices.py"),
        PythonTests("tests/torch/test_plain_door.py"),
        PythonTests("tests/torch/test_driver_faults.py"),
        PythonTests("tests/torch/test_phases.py"),
    ],
    "torch_plugin/bindings": [
        PythonTests("tests/view/test_columns.py"),
        PythonTests("tests/view/test_commands.py"),
        PythonTests("tests/torch/test_main_door.py"),
        PythonTests("tests/torch/test_command_line.py"),
        PythonTests("tests/replay/test_replay.py"),
        PythonTests("tests/replay/test_hostile_inputs.py"),
    ],
    "bench/replay/generators": [
        Program("tests/unit/replay/replay_test"),
    ],
    "bench/replay/policies": [
        Program("tests/unit/replay/replay_test"),
    ],
    "bench/replay/readers": [
        Program("tests/unit/replay/replay_test"),
    ],
    "allocator/device/sim": [
        Program("tests/contract/contract_test", select="*/Sim"),
        Program("tests/unit/device/device_unit_test"),
    ],
    "allocator/device": [
        Program("tests/unit/device/device_unit_test", select="Cuda*"),
        Program(
            "tests/unit/device/device_unit_test", select="CudaSymbols*:CudaDevice*", prefix=SIMGPU
        ),
        Program("tests/contract/contract_test", ["--require-cuda"], "*/Cuda", SIMGPU),
    ],
}

Case = collections.namedtuple("Case", "program name seconds")

# A batch of cases may take that long, and so many times what it took unbroken.
LEAST_SECONDS = 10
MOST_TIMES_SLOWER = 10
# A broken program that asks for more memory than that, stacks of threads included, is stopped.
MOST_BYTES = 16 << 30


def limit_child():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))


class Suite:
    """The test programs of a folder over its switches, and which of their cases reaches which mutant."""

    def __init__(self, folder, work):
        self.work = pathlib.Path(work)
        self.environment = dict(
            os.environ, SIMGPU_LIB=str(folder.build / "simgpu/lib"), SIMGPU_QUIET="1"
        )
        programs = PROGRAMS[folder.folder]
        if any(isinstance(program, PythonTests) for program in programs):
            self.environment["PYTHONPATH"] = str(folder.package())
        self.programs = [
            (program, None if isinstance(program, PythonTests) else folder.link(program))
            for program in programs
        ]
        self.cases_of = collections.defaultdict(list)  # by number of the mutant

    def record(self):
        for index, (program, _) in enumerate(self.programs):
            log = self.work / "log"
            marks = self.work / "marks"
            log.write_text("")
            marks.write_bytes(bytes((1 << 14) + 1))
            began = time.monotonic()
            done = self._run(index, "*", 600, BRANCHES_LOG=log, BRANCHES_REACHED=marks)
            if done != 0:
                raise RuntimeError(f"{program.name} fails with nothing broken")
            if isinstance(program, PythonTests):
                case = Case(index, program.name, time.monotonic() - began)
                for number, is_reached in enumerate(marks.read_bytes()):
                    if is_reached:
                        self.cases_of[number].append(case)
            for line in log.read_text().splitlines():
                name, milliseconds, *numbers = line.split()
                case = Case(index, name, int(milliseconds) / 1000)
                for number in numbers:
                    self.cases_of[int(number)].append(case)
        for cases in self.cases_of.values():
            cases.sort(key=lambda case: case.seconds)

    def killer(self, mutant):
        """What fails with the mutant, or an empty text."""
        for batch in batches(self.cases_of[mutant.number]):
            program = batch[0].program
            limit = LEAST_SECONDS + MOST_TIMES_SLOWER * sum(case.seconds for case in batch)
            names = ":".join(case.name for case in batch)
            code = self._run(program, names, limit, BRANCHES_BROKEN=mutant.number)
            if code != 0:
                return self.programs[program][0].name + (" (time)" if code is None else "")
        return ""

    def _run(self, index, select, seconds, **environment):
        """The exit status, or None after that time."""
        program, executable = self.programs[index]
        if executable is None:
            words = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", program.name]
        else:
            # The names of all cases of a program may be more than a command line holds.
            flags = self.work / f"flags{threading.get_ident()}"
            flags.write_text("--gtest_filter=" + (program.select if select == "*" else select))
            words = [
                *program.prefix,
                str(executable),
                *program.arguments,
                "--gtest_fail_fast",
                "--gtest_brief=1",
                f"--gtest_flagfile={flags}",
            ]
        child = subprocess.Popen(
            words,
            cwd=ROOT,
            env=self.environment | {name: str(value) for name, value in environment.items()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=limit_child,
            start_new_session=True,
        )
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            return None


def batches(cases):
    """The cases in their order, in lists of one program each that take longer and longer."""
    begin = 0
    seconds = 0.1
    while begin < len(cases):
        end = begin
        sum_of = 0.0
        while end < len(cases) and (sum_of < seconds or end == begin):
            sum_of += cases[end].seconds
            end += 1
        for program in sorted({case.program for case in cases[begin:end]}):
            yield [case for case in cases[begin:end] if case.program == program]
        begin = end
        seconds *= 5


class Equivalents:
    """The mutants of equivalent.txt: "PATH: KIND: TEXT | reason"; the second that reads alike has "#2" behind it."""

    def __init__(self):
        self.reasons = {}
        for line in (HERE / "equivalent.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                key, reason = line.rsplit(" | ", 1)
                self.reasons[key.strip()] = reason.strip()

    @staticmethod
    def keys(mutants):
        """The key of each mutant, by number."""
        counts = collections.Counter()
        keys = {}
        for mutant in mutants:
            key = f"{mutant.path}: {mutant.kind}: {mutant.what}"
            counts[key] += 1
            keys[mutant.number] = key if counts[key] == 1 else f"{key} #{counts[key]}"
        return keys


def run_folder(arguments, name, equivalents):
    began = time.monotonic()
    folder = Folder((ROOT / arguments.build).resolve(), name, arguments.jobs)
    folder.compile()
    keys = equivalents.keys(folder.mutants)
    wanted = [
        mutant
        for mutant in folder.mutants
        if re.search(arguments.only, str(mutant)) and mutant.kind in arguments.kinds.split(",")
    ]
    if arguments.again:
        survivors = pathlib.Path(arguments.again).read_text().splitlines()
        named = {line.split(": ", 1)[1] for line in survivors if line.startswith(("SURV", "NOT"))}
        # The line may have moved since.
        named = {re.sub(r":\d+:", ":", text, count=1) for text in named}
        wanted = [m for m in wanted if re.sub(r":\d+:", ":", str(m), count=1) in named]
    if arguments.list:
        print(*wanted, *(f"does not compile: {mutant}" for mutant in folder.left_out), sep="\n")
        print(f"{name}: {len(wanted)} mutants, {len(folder.left_out)} do not compile")
        return True
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as work:
        suite = Suite(folder, work)
        suite.record()
        print(
            f"{name}: {len(wanted)} mutants, compiled after {time.monotonic() - began:.0f} s",
            flush=True,
        )
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for done, (mutant, by) in enumerate(
                zip(wanted, pool.map(suite.killer, wanted)), start=1
            ):
                is_listed = keys[mutant.number] in equivalents.reasons
                if by:
                    verdict = "LISTED AND KILLED" if is_listed else "killed"
                elif is_listed:
                    verdict = "equivalent"
                else:
                    cases = len(suite.cases_of[mutant.number])
                    verdict = f"SURVIVED ({cases} cases)" if cases else "NOT REACHED"
                counts[verdict.split(" (")[0]] += 1
                if arguments.verbose or verdict not in ("killed", "equivalent"):
                    print(f"{verdict}: {mutant}" + (f" [{by}]" if by else ""), flush=True)
                if done % 100 == 0:
                    print(f"{name}: {done} of {len(wanted)}", flush=True)
    unknown = [
        key
        for key in equivalents.reasons
        if key.startswith(name + "/")
        and "/" not in key[len(name) + 1 :].split(":")[0]
        and key not in keys.values()
    ]
    for key in unknown:
        print(f"LISTED AND NOT THERE: {key}")
    print(
        f"{name}: {len(wanted)} mutants in {time.monotonic() - began:.0f} s: "
        + ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
        + f"; {len(folder.left_out)} do not compile",
        flush=True,
    )
    return not unknown and counts["killed"] + counts["equivalent"] == len(wanted)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", help="all of " + ", ".join(PROGRAMS))
    parser.add_argument("--build", default="build/ci")
    parser.add_argument("--only", default="", help="mutants whose line of the list fits")
    parser.add_argument(
        "--again", default="", help="only the survivors that this output of a run names"
    )
    parser.add_argument("--kinds", default="ignored,always,dropped,unchecked")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time")
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    parser.add_argument("--verbose", action="store_true", help="name what kills each mutant")
    parser.add_argument("--targets", action="store_true", help="only name what must be built")
    arguments = parser.parse_args()
    if arguments.targets:
        needed = {
            pathlib.Path(program.name).name
            for programs in PROGRAMS.values()
            for program in programs
            if isinstance(program, Program)
        }
        print(*sorted(needed), "simgpu_all", "levee_package", "make_trace")
        return 0
    folders = arguments.folders or list(PROGRAMS)
    if unknown := [name for name in folders if name not in PROGRAMS]:
        parser.error(f"nothing is known of {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    equivalents = Equivalents()
    results = [run_folder(arguments, name, equivalents) for name in folders]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
