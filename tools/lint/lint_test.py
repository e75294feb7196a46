#!/usr/bin/env python3
"""Each lint rule fails on a tree that breaks it, and only there; a tree that breaks none passes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import lint  # noqa: E402

HEADER = "// Owns: a thing.\n#pragma once\n"
SOURCE = "// Owns: a thing.\n"

# A tree that no rule objects to. The broken trees change or add single files.
CLEAN = {
    "allocator/CMakeLists.txt": "target_sources(x FILES\n  include/levee/units.h)\n",
    "allocator/include/levee/units.h": HEADER + "#include <cstdint>\nstruct Bytes {};\n",
    "allocator/base/check.h": HEADER + "#include <levee/units.h>\n",
    "allocator/device/device.h": HEADER + '#include "allocator/base/check.h"\n',
    "allocator/device/cuda_device.h": HEADER + "#include <cuda_runtime_api.h>\n",
    "allocator/record/recorder.h": HEADER + "#include <zstd.h>\n",
    "allocator/core/pool.h": HEADER
    + '#include "allocator/device/device.h"\n#include "allocator/record/recorder.h"\n/// `Bytes` in `core/pool.h`.\n'
    + "void place() { ::new (spot()) Bytes{}; }\n",
    "allocator/core/pool.cc": '#include "allocator/core/pool.h"\nint live_bytes;\n',
    "allocator/analysis/facts.h": HEADER
    + '#include <fmt/format.h>\n#include "allocator/record/recorder.h"\n',
    "torch_plugin/torch_allocator.h": HEADER
    + "#include <c10/core/Allocator.h>\n#include <levee/units.h>\n",
    "torch_plugin/bindings/module.h": HEADER
    + '#include <pybind11/pybind11.h>\n#include "allocator/analysis/facts.h"\n',
    "tools/simgpu/cudart.h": HEADER + '#include <cuda.h>\n#include "allocator/device/device.h"\n',
    "tests/unit/core/pool_test.cc": '#include <gtest/gtest.h>\n#include "allocator/core/pool.h"\n',
    "README.md": "`Pool` is not code, `live_bytes` and `allocator/core/pool.h` are.\n".replace(
        "`Pool` is not code, ", ""
    ),
    "tools/lint/exemptions.txt": "# nothing\n",
}

LONG_FUNCTION = "\n".join(f"  total += weight_{i} * {i};" for i in range(13))

# Rule -> trees that break it: a name and the files that differ from CLEAN.
BROKEN = {
    "include-law": {
        "base includes core": {
            "allocator/base/check.h": HEADER + '#include "allocator/core/pool.h"\n'
        },
        "vocabulary includes base": {
            "allocator/include/levee/units.h": HEADER + '#include "allocator/base/check.h"\n'
        },
        "vocabulary includes a system header": {
            "allocator/include/levee/units.h": HEADER + "#include <unistd.h>\n"
        },
        "record includes device": {
            "allocator/record/recorder.h": HEADER + '#include "allocator/device/device.h"\n'
        },
        "device includes record": {
            "allocator/device/device.h": HEADER + '#include "allocator/record/recorder.h"\n'
        },
        "core includes the real device": {
            "allocator/core/pool.h": HEADER + '#include "allocator/device/cuda_device.h"\n'
        },
        "analysis includes core": {
            "allocator/analysis/facts.h": HEADER + '#include "allocator/core/pool.h"\n'
        },
        "simgpu includes core": {
            "tools/simgpu/cudart.h": HEADER + '#include "allocator/core/pool.h"\n'
        },
        "plugin includes core": {
            "torch_plugin/torch_allocator.h": HEADER + '#include "allocator/core/pool.h"\n'
        },
        "bindings include core": {
            "torch_plugin/bindings/module.h": HEADER + '#include "allocator/core/pool.h"\n'
        },
        "CUDA in core": {"allocator/core/pool.h": HEADER + "#include <cuda.h>\n"},
        "CUDA in the abstract device": {
            "allocator/device/device.h": HEADER + "#include <cuda_runtime_api.h>\n"
        },
        "CUPTI in analysis": {"allocator/analysis/facts.h": HEADER + "#include <cupti.h>\n"},
        "PyTorch in core": {"allocator/core/pool.h": HEADER + "#include <c10/core/Device.h>\n"},
        "PyTorch in simgpu": {"tools/simgpu/cudart.h": HEADER + "#include <torch/extension.h>\n"},
        "Python outside the bindings": {
            "torch_plugin/torch_allocator.h": HEADER + "#include <Python.h>\n"
        },
        "pybind11 in export": {
            "allocator/export/html.h": HEADER + "#include <pybind11/pybind11.h>\n"
        },
        "fmt in core": {"allocator/core/pool.h": HEADER + "#include <fmt/format.h>\n"},
        "gtest in the library": {"allocator/base/check.h": HEADER + "#include <gtest/gtest.h>\n"},
        "a relative include": {"allocator/core/pool.cc": '#include "pool.h"\nint live_bytes;\n'},
        "a private header in angle brackets": {
            "allocator/core/pool.cc": "#include <allocator/core/pool.h>\nint live_bytes;\n"
        },
        "a public header that is not there": {
            "allocator/base/check.h": HEADER + "#include <levee/gone.h>\n"
        },
        "a folder that the law does not know": {
            "allocator/extras/a.h": HEADER + '#include "allocator/base/check.h"\n'
        },
    },
    "public-headers": {"a header that is not listed": {"allocator/include/levee/ids.h": HEADER}},
    "heap-in-core": {
        "new": {"allocator/core/pool.cc": SOURCE + "int* live_bytes = new int;\n"},
        "new with global scope": {
            "allocator/core/pool.cc": SOURCE + "int* live_bytes = ::new int;\n"
        },
        "malloc": {"allocator/core/pool.cc": SOURCE + "auto live_bytes = std::malloc(8);\n"},
    },
    "printf": {
        "printf": {"allocator/core/pool.cc": SOURCE + 'int live_bytes = printf("x");\n'},
        "snprintf in simgpu": {
            "tools/simgpu/cudart.h": HEADER + 'int f() { return snprintf(0, 0, "x"); }\n'
        },
    },
    "getenv": {
        "getenv": {"allocator/core/pool.cc": SOURCE + 'auto live_bytes = std::getenv("A");\n'}
    },
    "cout": {"cout": {"torch_plugin/torch_allocator.h": HEADER + "void f() { std::cout << 1; }\n"}},
    "fmt-outside-cold-code": {
        "fmt": {"allocator/core/pool.cc": SOURCE + 'auto live_bytes = fmt::format("x");\n'}
    },
    "void-pointer": {
        "void*": {"allocator/core/pool.cc": SOURCE + "void* live_bytes;\n"},
        "const void *": {"allocator/core/pool.cc": SOURCE + "void const * live_bytes;\n"},
    },
    "catch-all": {
        "catch all": {
            "allocator/core/pool.cc": SOURCE + "void live_bytes() try {} catch (...) {}\n"
        },
    },
    "sleep-in-tests": {
        "C++": {"tests/unit/core/pool_test.cc": "void f() { std::this_thread::sleep_for(x); }\n"},
        "Python": {"tests/torch/test_a.py": "import time\n\ntime.sleep(1)\n"},
    },
    "preprocessor": {
        "ifdef": {"allocator/core/pool.cc": SOURCE + "#ifdef NDEBUG\nint live_bytes;\n#endif\n"}
    },
    "clock": {
        "chrono": {
            "allocator/core/pool.cc": SOURCE
            + "auto live_bytes = std::chrono::steady_clock::now();\n"
        }
    },
    "cuda-name": {
        "a call": {"allocator/core/pool.cc": SOURCE + "int live_bytes = cudaGetLastError();\n"}
    },
    "torch-name": {
        "a call": {"allocator/core/pool.cc": SOURCE + "int live_bytes = c10::device_count();\n"}
    },
    "console-log-in-views": {
        "a log": {"allocator/export/view.js": "// The view.\nconsole.log(1);\n"}
    },
    "include-guard": {"no guard": {"allocator/base/check.h": "// Owns: a thing.\n"}},
    "file-length": {
        "a long file": {
            "allocator/core/pool.cc": SOURCE
            + "int live_bytes;\n"
            + "".join(f"int b{i};\n" for i in range(900))
        }
    },
    "unfinished": {
        "a note": {"allocator/core/pool.cc": SOURCE + "int live_bytes;  // TODO later\n"}
    },
    "trailing-space": {
        "space": {"allocator/core/pool.cc": SOURCE + "int live_bytes; \n"},
        "no line feed": {"allocator/core/pool.cc": SOURCE + "int live_bytes;"},
    },
    "head-comment": {"none": {"allocator/base/check.h": "#pragma once\n"}},
    "names-exist": {
        "an identifier in a comment": {
            "allocator/core/pool.cc": SOURCE + "int live_bytes;  // see `dead_bytes`\n"
        },
        "a member": {
            "allocator/core/pool.cc": SOURCE + "int live_bytes;  // see `Bytes::gone()`\n"
        },
        "a name that only another comment has": {
            "allocator/core/pool.cc": SOURCE
            + "int live_bytes;  // dead_bytes, that is `dead_bytes`\n"
        },
        "a file": {"README.md": "See `allocator/core/gone.h`.\n"},
        "a suffix": {"README.md": "Functions end in `_gone`.\n"},
        "a command": {"README.md": "Run `tools/gone --now`.\n"},
        "a Python comment": {"tools/a.py": "x = 1  # see `dead_bytes`\n"},
    },
    "untested": {
        "a source without a test": {"allocator/core/zone.cc": "// Owns: a thing.\nint zone;\n"}
    },
    "duplicate-lines": {
        "two files": {
            "allocator/core/pool.cc": SOURCE + "int live_bytes() {\n" + LONG_FUNCTION + "\n}\n",
            "bench/copy.h": HEADER + "int other() {\n" + LONG_FUNCTION + "\n}\n",
        },
        "one file": {
            "allocator/core/pool.cc": SOURCE
            + f"int live_bytes() {{\n{LONG_FUNCTION}\n}}\nint b() {{\n{LONG_FUNCTION}\n}}\n"
        },
    },
    "exemptions": {
        "one that covers nothing": {
            "tools/lint/exemptions.txt": "printf | allocator/gone.cc | * | a reason\n"
        },
        "one without a reason": {
            "tools/lint/exemptions.txt": "printf | allocator/core/pool.cc | *\n"
        },
    },
}

# What looks like an offence and is none.
HARMLESS = {
    "a comment": {
        "allocator/core/pool.cc": SOURCE
        + "int live_bytes;  // no new, no printf(), no void*, no cudaMalloc\n"
    },
    "a string": {
        "allocator/core/pool.cc": SOURCE + 'const char* live_bytes = "printf(new void*)";\n'
    },
    "eleven equal lines": {
        "allocator/core/pool.cc": SOURCE
        + "int live_bytes;\n"
        + "\n".join(LONG_FUNCTION.split("\n")[:11])
        + "\n",
        "bench/copy.h": HEADER + "\n".join(LONG_FUNCTION.split("\n")[:11]) + "\n",
    },
    "a used exemption": {
        "allocator/core/pool.cc": SOURCE + 'int live_bytes = printf("x");\n',
        "tools/lint/exemptions.txt": "printf | allocator/core/*.cc | live_bytes | the fixture prints\n",
    },
    "names of other software": {
        "README.md": "`cudaMalloc`, `torch.cuda.memory_stats()`, `std::vector`, `a + b = c`.\n"
    },
    "declarations of an interface": {
        "allocator/core/pool.cc": SOURCE
        + "int live_bytes;\n"
        + "".join(f"Status call_{i}() override;\n" for i in range(15)),
        "bench/copy.h": HEADER + "".join(f"Status call_{i}() override;\n" for i in range(15)),
    },
    "a source tested under another name": {
        "allocator/core/zone.h": HEADER,
        "allocator/core/zone.cc": SOURCE + "int zone;\n",
        "tests/unit/core/pool_test.cc": '#include "allocator/core/zone.h"\n',
    },
    "a file that code writes": {
        "allocator/core/pool.cc": SOURCE + 'const char* live_bytes = "live.json";  // `live.json`\n'
    },
    "a suffix": {"README.md": "Names end in `_bytes`.\n"},
    "a digit separator": {
        "allocator/core/pool.cc": SOURCE
        + "int live_bytes = 1'000; int x = 2'000;  // `live_bytes`\n"
    },
}


def findings_of(changes: dict[str, str]) -> list:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, text in {**CLEAN, **changes}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return lint.run(root)


class LintTest(unittest.TestCase):
    def test_a_clean_tree_has_no_findings(self):
        self.assertEqual([str(f) for f in findings_of({})], [])

    def test_every_rule_fails_on_each_of_its_broken_trees_and_no_other_rule_does(self):
        for rule, trees in BROKEN.items():
            for name, changes in trees.items():
                with self.subTest(rule=rule, tree=name):
                    self.assertEqual({f.rule for f in findings_of(changes)}, {rule})

    def test_every_rule_has_a_broken_tree(self):
        self.assertEqual(sorted(BROKEN), lint.RULES)

    def test_what_only_looks_like_an_offence_passes(self):
        for name, changes in HARMLESS.items():
            with self.subTest(tree=name):
                self.assertEqual([str(f) for f in findings_of(changes)], [])

    def test_what_a_run_left_in_the_tree_is_not_looked_at_but_new_sources_are(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            readme = CLEAN["README.md"] + "It writes `levee_traces/PROGRAM-PID.levee`.\n"
            for path, text in {**CLEAN, "README.md": readme}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            for command in (["init", "-q"], ["add", "."]):
                subprocess.run(["git", "-C", folder, *command], check=True)
            (root / "levee_traces").mkdir()
            (root / "levee_traces/train-7.levee").write_bytes(b"LEVEE")
            self.assertEqual([str(f) for f in lint.run(root)], [])
            (root / "allocator/core/new.cc").write_text(SOURCE + "void* live_bytes;\n")
            self.assertIn("void-pointer", {f.rule for f in lint.run(root)})

    def test_a_finding_names_file_line_and_rule(self):
        (finding,) = findings_of({"allocator/core/pool.cc": SOURCE + "\nvoid* live_bytes;\n"})
        self.assertEqual(
            str(finding).split(" ")[:2], ["allocator/core/pool.cc:3:", "[void-pointer]"]
        )


if __name__ == "__main__":
    unittest.main()
