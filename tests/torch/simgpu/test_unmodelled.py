"""A program that asks for what is not there learns its name, and does not crash."""

import shutil
import subprocess

import pytest

from on_simgpu import run_on_simgpu


def test_a_missing_symbol_is_named(unmodelled):
    assert "undefined symbol: cublasNoSuchFunction" in unmodelled.fact("missing_symbol")


def test_a_missing_symbol_ends_a_linked_program_with_its_name(tmp_path):
    """A program that was built with a newer library than the stand-in's."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to link a program with")
    (tmp_path / "newer.c").write_text("int cublasNoSuchFunction(void) { return 0; }")
    (tmp_path / "program.c").write_text(
        "int cublasNoSuchFunction(void); int main(void) { return cublasNoSuchFunction(); }"
    )
    library = tmp_path / "libcublas.so.13"
    soname = "-Wl,-soname,libcublas.so.13"
    for command in (
        ["-shared", "-fPIC", "newer.c", soname, "-o", str(library)],
        ["program.c", str(library), "-Wl,-z,lazy", "-o", "program"],
    ):
        subprocess.run([compiler, *command], check=True, cwd=tmp_path)
    assert subprocess.run([tmp_path / "program"], env={"LD_LIBRARY_PATH": tmp_path}).returncode == 0
    done = run_on_simgpu([str(tmp_path / "program")])
    assert done.returncode == 127
    assert "undefined symbol: cublasNoSuchFunction" in done.stdout


def test_a_function_that_is_not_modelled_says_so_once_and_fails(unmodelled):
    assert unmodelled.fact("not_modelled") == [5, 5]  # ncclInvalidUsage
    said = [
        line
        for line in unmodelled.output.splitlines()
        if "ncclCommWindowRegister" in line and "FACTS" not in line
    ]
    assert len(said) == 1


def test_handles_that_are_none_are_refused(unmodelled):
    assert unmodelled.fact("handles_that_are_none") == [1, 1, 2000, 2000]


def test_settings_read_back(unmodelled):
    assert unmodelled.fact("settings_read_back") == [0, 3, 1]


def test_errors_have_names(unmodelled):
    assert unmodelled.fact("names_of_errors") == [
        "CUBLAS_STATUS_SUCCESS",
        "CUBLAS_STATUS_NOT_SUPPORTED",
        "unknown",
    ]
