"""Builds a folder of the library with a switch in each of its error branches, and the folder's test programs over it.

The tests of the Python package run over a copy of it in which the modules that hold the folder's objects are linked
from those with switches.

Sources are copied to <build>/branches/<folder> and compiled with the command lines of the build, at -O1; each test
program is linked once more, with those objects in front of the library that holds their originals, so that the linker
never looks at the originals. Sites with which a file does not compile are found and left out.
"""

import concurrent.futures
import dataclasses
import json
import pathlib
import re
import shlex
import shutil
import subprocess

import branch_sites

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Program:
    """A test program: `name` as the build calls it, and how it is run.

    `libraries_of` is a program whose libraries it gets too.
    """

    name: str
    arguments: list = dataclasses.field(default_factory=list)
    select: str = "*"
    prefix: list = dataclasses.field(default_factory=list)
    libraries_of: str = ""


@dataclasses.dataclass
class PythonTests:
    """A file of Python tests, run as a whole: most start their programs once for all of their tests."""

    name: str


class Folder:
    def __init__(self, build, folder, jobs):
        self.build = build
        self.folder = folder
        self.jobs = jobs
        self.work = build / "branches" / folder
        self.work.mkdir(parents=True, exist_ok=True)
        self.mutants = []  # of sites that compile
        self.left_out = []  # of sites that do not
        entries = json.loads((build / "compile_commands.json").read_text())
        self.commands = {}
        for entry in entries:
            source = pathlib.Path(entry["file"]).resolve()
            if source.parent != ROOT / folder or "CORE_MUTANTS" in entry["command"]:
                continue
            # A program's own file cannot be linked to a test: it has a `main` itself.
            if not re.search(r"^int main\(", source.read_text(), re.M):
                self.commands.setdefault(source, entry)

    def compile(self):
        """Compiles every file of the folder. Afterwards `mutants` are the ones that can be switched on."""
        first = 1
        files = []
        for source in sorted(self.commands):
            path = str(source.relative_to(ROOT))
            found = branch_sites.Finder(path, source.read_text(), first)
            first = found.next_number
            files.append((source, found.sites))
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            kept = list(pool.map(lambda item: self._compile_file(*item), files))
            own = list(pool.map(self._compile_own, ("switch.cc", "listener.cc")))
        self.switch = own[0]
        self.objects = own
        for (source, sites), (good, obj) in zip(files, kept):
            self.objects.append(obj)
            for site in sites:
                (self.mutants if site in good else self.left_out).extend(site.mutants)

    def _compile_file(self, source, sites):
        obj = self.work / (source.name + ".o")
        if self._compiles(source, sites, obj):
            return sites, obj
        good = self._compilable(source, sites)
        if not self._compiles(source, good, obj):
            raise RuntimeError(f"{source} does not compile with the sites that compile one by one")
        return good, obj

    def _compilable(self, source, sites):
        """Those with which the file compiles, found by halves: few do not."""
        if self._compiles(source, sites, None):
            return sites
        if len(sites) == 1:
            return []
        half = len(sites) // 2
        return self._compilable(source, sites[:half]) + self._compilable(source, sites[half:])

    def _compiles(self, source, sites, obj):
        text = branch_sites.rewritten(source.read_text(), sites)
        copy = self.work / source.name
        copy.write_text(text)
        entry = self.commands[source]
        words = shlex.split(entry["command"])
        words = words[: words.index("-o")]
        words = [w for w in words if w not in ("-O3", "-O2", "-Werror", "-MD", "-Wall", "-Wextra")]
        words += ["-O1", "-w", "-include", str(HERE / "switch.h"), "-iquote", str(source.parent)]
        words += ["-c", str(copy)]
        words += ["-o", str(obj)] if obj else ["-fsyntax-only"]
        if obj and words[0] != "ccache" and shutil.which("ccache"):
            words.insert(0, "ccache")
        done = subprocess.run(words, cwd=entry["directory"], capture_output=True, check=False)
        return done.returncode == 0

    def _compile_own(self, name):
        obj = self.work / (name + ".o")
        entry = next(iter(self.commands.values()))
        compiler = [w for w in shlex.split(entry["command"])[:2] if not w.startswith("-")]
        words = [
            *compiler,
            "-std=c++20",
            "-O1",
            "-fPIC",
            f"-I{ROOT}",
            "-c",
            str(HERE / name),
            "-o",
            str(obj),
        ]
        subprocess.run(words, check=True)
        return obj

    def link(self, program):
        """The executable of the program over the objects with switches."""
        words = self._link_command(program.name)
        out = self.work / pathlib.Path(program.name).name
        at = words.index("-o")
        words[at + 1] = str(out)
        words[at:at] = [str(obj) for obj in self.objects]
        if program.libraries_of:
            more = self._link_command(program.libraries_of)
            words += [word for word in more if re.search(r"\.a$|\.so\b|^-l", word)]
        self._link(words)
        return out

    def package(self):
        """The folder to have on PYTHONPATH for a Python package with switches in its modules."""
        own = self.work / "python" / "levee"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        with_switches = {obj.name: str(obj) for obj in self.objects}
        for entry in sorted((self.build / "python" / "levee").iterdir()):
            out = own / entry.name
            if entry.is_symlink() or entry.suffix != ".so":
                out.symlink_to(entry.resolve())
                continue
            words = self._link_command(str(entry.relative_to(self.build)))
            originals = [w for w in words if ".dir/" in w and pathlib.Path(w).name in with_switches]
            words = [
                with_switches[pathlib.Path(word).name] if word in originals else word
                for word in words
            ]
            if not originals:
                out.symlink_to(entry.resolve())
                continue
            at = words.index("-o")
            words[at + 1] = str(out)
            words.insert(at, str(self.switch))
            self._link(words)
        return own.parent

    def _link(self, words):
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-3000:])

    def _link_command(self, name):
        asked = subprocess.run(
            ["ninja", "-C", str(self.build), "-t", "commands", "-s", name],
            capture_output=True,
            text=True,
            check=True,
        )
        # The last command is the link: ": && c++ ... -o NAME libraries && :".
        line = asked.stdout.strip().splitlines()[-1]
        return shlex.split(line.removeprefix(": &&").rsplit("&&", 1)[0])
