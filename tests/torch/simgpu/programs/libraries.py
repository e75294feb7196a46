"""Linear algebra, FFT, sparse matrices, kernels compiled at run time."""

import torch

from checks import check

D = "cuda"


@check
def dense_linear_algebra():
    a = torch.randn(2, 8, 8, device=D)
    shapes = {
        "inv": torch.linalg.inv(a).shape,
        "solve": torch.linalg.solve(a, torch.randn(2, 8, 3, device=D)).shape,
        "cholesky": torch.linalg.cholesky(a).shape,
        "qr": torch.linalg.qr(a).Q.shape,
        "svd": torch.linalg.svd(a).S.shape,
        "eigh": torch.linalg.eigh(a).eigenvalues.shape,
        "lu": torch.linalg.lu_factor(a).LU.shape,
        "lstsq": torch.linalg.lstsq(a, torch.randn(2, 8, 3, device=D)).solution.shape,
        "large_svd": torch.linalg.svd(torch.randn(64, 48, device=D)).S.shape,
        "complex": torch.linalg.inv(torch.randn(4, 4, device=D, dtype=torch.complex64)).shape,
    }
    return {name: list(shape) for name, shape in shapes.items()}


@check
def linear_algebra_does_not_see_stale_bytes():
    # The number that tells whether a factorisation worked lies in memory that held something else before.
    dirty = torch.full((1 << 16,), 7, dtype=torch.int32)
    for _ in range(4):
        del_me = dirty.to(D)
        del del_me
        torch.linalg.cholesky(torch.randn(16, 16, device=D))
        torch.linalg.inv(torch.randn(16, 16, device=D))
    return True


@check
def vector_products():
    x = torch.randn(100, device=D)
    return [torch.dot(x, x).item(), torch.mv(torch.randn(5, 100, device=D), x).shape[0]]


@check
def batched_products_of_every_type():
    shapes = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
        a = torch.zeros(3, 4, 5, device=D, dtype=dtype)
        shapes.append(list(torch.bmm(a, a.transpose(1, 2)).shape))
    return shapes


@check
def int8_product():
    a = torch.zeros(32, 32, device=D, dtype=torch.int8)
    return str(torch._int_mm(a, a).dtype)


@check
def fourier_transforms():
    x = torch.randn(3, 64, device=D)
    pictures = torch.randn(2, 8, 8, device=D)
    return [
        list(torch.fft.fft(x).shape),
        list(torch.fft.irfft(torch.fft.rfft(x)).shape),
        list(torch.fft.fft2(pictures).shape),
        list(torch.stft(x, 16, return_complex=True, window=torch.hann_window(16, device=D)).shape),
    ]


@check
def sparse_products():
    dense = torch.eye(6)
    csr, coo = dense.to_sparse_csr().to(D), dense.to_sparse().to(D)
    total = csr + torch.ones(6, 6).to_sparse_csr().to(D)
    return {
        "csr_mm": list((csr @ torch.ones(6, 4, device=D)).shape),
        "csr_mv": list((csr @ torch.ones(6, device=D)).shape),
        "coo_mm": list((coo @ torch.ones(6, 4, device=D)).shape),
        "sum": total._nnz(),
        "round_trip": torch.equal(coo.cpu().to_dense(), dense),
    }


@check
def sparse_sparse_product():
    csr = torch.eye(6).to_sparse_csr().to(D)
    return list((csr @ csr).shape)


@check
def kernel_compiled_at_run_time():
    square = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T square(T x) { return x * x; }"
    )
    out = square(torch.ones(10, device=D))
    special = torch.special.bessel_j0(torch.ones(10, device=D))  # compiled by the same way
    return [list(out.shape), list(special.shape)]


@check
def raw_kernel_compiled_at_run_time():
    source = 'extern "C" __global__ void add_one(float* data, int n) { if (threadIdx.x < n) data[threadIdx.x] += 1; }'
    kernel = torch.cuda._compile_kernel(source, "add_one")
    data = torch.zeros(8, device=D)
    kernel(grid=(1, 1, 1), block=(8, 1, 1), args=(data, 8))
    torch.cuda.synchronize()
    return True


@check
def structured_sparsity():
    return torch.backends.cusparselt.version()


@check
def structured_sparse_product():
    dense = torch.zeros(64, 64, dtype=torch.float16)
    dense[:, ::2] = 1
    compressed = torch._cslt_compress(dense.to(D))
    out = torch._cslt_sparse_mm(compressed, torch.ones(64, 64, device=D, dtype=torch.float16))
    return [list(out.shape), compressed.numel()]


@check
def versions():
    return {"cudnn": torch.backends.cudnn.version(), "nccl": list(torch.cuda.nccl.version())}
