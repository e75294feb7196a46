"""The generator of the math libraries: reading headers, reading ELF files, and what the rules make of a declaration."""

import subprocess
import sys

import pytest

from on_simgpu import ROOT

sys.path.insert(0, str(ROOT / "tools" / "simgpu" / "stubs"))

from c_declarations import parse, preprocess  # noqa: E402
from elf_imports import imports  # noqa: E402
from emit import Emitter  # noqa: E402
from families import FAMILIES, Family, Rule, family  # noqa: E402
from generate import generate  # noqa: E402

HEADER = """
#pragma once
typedef enum { TOY_OK = 0, TOY_BAD = 3, TOY_ALIAS = 3, TOY_WORSE } toyStatus_t;
typedef struct toyContext *toyHandle_t;
typedef struct CUstream_st *cudaStream_t;
static inline int toyInline(int x) { return x; }
extern __attribute__((visibility("default"))) toyStatus_t toyCreate(toyHandle_t *handle, int flags);
toyStatus_t toyDestroy(toyHandle_t handle);
toyStatus_t toySetStream_v2(toyHandle_t handle, cudaStream_t stream);
toyStatus_t toySetMode(toyHandle_t handle, int mode);
toyStatus_t toyGetMode(const toyHandle_t handle, int *mode);
toyStatus_t toyProduct_bufferSize(toyHandle_t handle, int n, const float *a, int *lwork);
toyStatus_t toyProduct(toyHandle_t handle, int n, const float *a, float *c, int devInfo[], int batchSize);
toyStatus_t toyWithCallback(void (*callback)(int, void *), const void *const rows[], _Bool flag);
const char *toyGetText(toyStatus_t status);
toyStatus_t toyFuture(void);
"""

TOY = Family(
    name="toy",
    major=1,
    headers=(("toy.h",),),
    symbols=r"toy\w+",
    status="toyStatus_t",
    invalid_handle="TOY_BAD",
    unsupported="TOY_WORSE",
    stream_handle="toyHandle_t",
    silent=r"toy(Set|Get|Create|Destroy)\w*|\w+_bufferSize",
    not_modelled="toyFuture",
    costs=(
        Rule(r"toyProduct", "gemm(n, n, missing, 1, kSingle)"),
        Rule(r"toyProduct", "gemm(n, n, n, 1, kSingle)"),
    ),
)


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.h").write_text(HEADER, encoding="utf-8")
    return parse(preprocess("cc", ("toy.h",), [folder]))


def made(declared, name):
    return Emitter(TOY, declared).function(declared.functions[name])


def test_declarations_are_found_and_definitions_are_not(declared):
    assert set(declared.functions) == {
        "toyCreate", "toyDestroy", "toySetStream_v2", "toySetMode", "toyGetMode", "toyProduct_bufferSize", "toyProduct",
        "toyWithCallback", "toyGetText", "toyFuture",
    }  # fmt: skip
    assert declared.pointers >= {"toyHandle_t", "cudaStream_t"}


def test_parameters_keep_their_types(declared):
    create = declared.functions["toyCreate"]
    assert create.result == "toyStatus_t"
    assert [(p.type, p.name) for p in create.parameters] == [
        ("toyHandle_t *", "handle"),
        ("int", "flags"),
    ]
    product = declared.functions["toyProduct"]
    assert [p.is_output for p in product.parameters] == [False, False, False, True, True, False]
    assert [p.name for p in declared.functions["toyWithCallback"].parameters] == [
        "callback",
        "rows",
        "flag",
    ]


def test_an_enumerator_that_repeats_a_value_is_left_out(declared):
    assert declared.enums["toyStatus_t"] == ["TOY_OK", "TOY_BAD", "TOY_WORSE"]


def test_values_set_can_be_read_back(declared):
    assert 'object->set("toyMode.mode", mode)' in made(declared, "toySetMode")
    assert 'write_value(Object::from(handle), "toyMode.mode", "mode", mode)' in made(
        declared, "toyGetMode"
    )
    assert "set_stream(stream)" in made(declared, "toySetStream_v2")


def test_creation_and_end(declared):
    create = made(declared, "toyCreate")
    assert (
        'Object::make(handle, "toyHandle_t")' in create and 'object->set("flags", flags)' in create
    )
    assert "Object::destroy(handle)" in made(declared, "toyDestroy")


def test_sizes_are_zero_and_no_work(declared):
    text = made(declared, "toyProduct_bufferSize")
    assert "write_zero(lwork)" in text
    assert "launch(" not in text


def test_computing_functions_launch_and_answer(declared):
    text = made(declared, "toyProduct")
    # The first rule names a parameter that the function lacks.
    assert (
        'launch(Object::from(handle), "toyProduct", gemm(number(n), number(n), number(n), 1, kSingle))'
        in text
    )
    assert "answer_zero(devInfo, batchSize)" in text
    assert "if (Object::from(handle) == nullptr) return TOY_BAD;" in text


def test_names_of_enumerators(declared):
    assert 'case TOY_BAD: return "TOY_BAD";' in made(declared, "toyGetText")


def test_what_is_not_modelled_says_so(declared):
    text = made(declared, "toyFuture")
    assert 'simgpu_not_modelled("libtoy", "toyFuture")' in text and "return TOY_WORSE;" in text


def test_a_header_that_is_missing_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="no_such_header.h"):
        preprocess("cc", ("no_such_header.h",), [tmp_path])


def test_an_unknown_library_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="no library cubla.*cublas"):
        family("cubla")


def test_no_symbol_belongs_to_two_libraries():
    for symbol in (
        "cublasSgemm_v2",
        "cublasLtMatmul",
        "cusparseSpMM",
        "cusparseLtMatmul",
        "cudnnCreate",
        "pncclSend",
    ):
        assert sum(f.owns(symbol) for f in FAMILIES) == 1, symbol


def test_imports_of_a_library_with_their_versions(tmp_path):
    source = tmp_path / "user.c"
    source.write_text(
        'int printf(const char *, ...); int f(void) { return printf("x"); }', encoding="utf-8"
    )
    built = tmp_path / "user.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(built)], check=True)
    found = imports(built)
    assert "libc.so.6" in found.needed
    printf = next(s for s in found.symbols if s.name == "printf")
    assert printf.library == "libc.so.6" and printf.version.startswith("GLIBC_")


def test_a_file_that_is_no_elf_file_is_named(tmp_path):
    wrong = tmp_path / "wrong.so"
    wrong.write_text("hello", encoding="utf-8")
    with pytest.raises(ValueError, match="wrong.so is not a 64-bit ELF file"):
        imports(wrong)


def test_generated_files_are_stable(tmp_path):
    (tmp_path / "toy.h").write_text(HEADER, encoding="utf-8")
    for _ in range(2):
        generate(TOY, [tmp_path], None, tmp_path / "out", "cc")
        first = (tmp_path / "out" / "toy_0.cc").stat().st_mtime_ns
    generate(TOY, [tmp_path], None, tmp_path / "out", "cc")
    assert (tmp_path / "out" / "toy_0.cc").stat().st_mtime_ns == first
    script = (tmp_path / "out" / "toy.map").read_text(encoding="utf-8")
    assert (
        script.startswith("libtoy.so.1 {\n  global:\n")
        and "    toyProduct;\n" in script
        and "local: *;" in script
    )
