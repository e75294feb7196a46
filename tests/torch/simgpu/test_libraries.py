"""The math libraries that are generated or hand-written: every call that PyTorch makes finds an answer it can use."""


def test_dense_linear_algebra(libraries):
    assert libraries.fact("dense_linear_algebra") == {
        "inv": [2, 8, 8],
        "solve": [2, 8, 3],
        "cholesky": [2, 8, 8],
        "qr": [2, 8, 8],
        "svd": [2, 8],
        "eigh": [2, 8],
        "lu": [2, 8, 8],
        "lstsq": [2, 8, 3],
        "large_svd": [48],
        "complex": [4, 4],
    }


def test_a_factorisation_reports_success_whatever_the_memory_held(libraries):
    assert libraries.fact("linear_algebra_does_not_see_stale_bytes") is True


def test_vector_products(libraries):
    assert libraries.fact("vector_products") == [0, 5]


def test_batched_products_of_every_type(libraries):
    assert libraries.fact("batched_products_of_every_type") == [[3, 4, 4]] * 5


def test_int8_product(libraries):
    assert libraries.fact("int8_product") == "torch.int32"


def test_fourier_transforms(libraries):
    assert libraries.fact("fourier_transforms") == [[3, 64], [3, 64], [2, 8, 8], [3, 9, 17]]


def test_sparse_products(libraries):
    assert libraries.fact("sparse_products") == {
        "csr_mm": [6, 4],
        "csr_mv": [6],
        "coo_mm": [6, 4],
        "sum": 6 + 36,  # the bound that memory is taken for
        "round_trip": True,
    }


def test_product_of_two_sparse_matrices(libraries):
    assert libraries.fact("sparse_sparse_product") == [6, 6]


def test_jiterator_kernels(libraries):
    assert libraries.fact("kernel_compiled_at_run_time") == [[10], [10]]


def test_raw_kernels_compiled_at_run_time(libraries):
    assert libraries.fact("raw_kernel_compiled_at_run_time") is True


def test_structured_sparse_product_takes_the_space_of_two_in_four(libraries):
    assert libraries.fact("structured_sparsity") > 0
    shape, elements = libraries.fact("structured_sparse_product")
    assert shape == [64, 64]
    assert (
        elements == 64 * 64 * (2 + 0.25) / 2 / 2
    )  # half the values and two bits each, counted in halves


def test_versions_are_those_of_the_installed_headers(libraries):
    versions = libraries.fact("versions")
    assert 90000 <= versions["cudnn"] < 100000
    assert versions["nccl"][0] == 2
