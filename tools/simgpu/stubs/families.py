"""The libraries that the generator makes, one `Family` each: where its declarations are and how its functions behave.

Everything here is about names. What a function does follows from its name and its parameters by the rules in
`emit.py`; a family says which names are exceptions. What needs more than rules is written by hand in the folder of
that name and replaces the generated function at link time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CostRule:
    """Functions whose name matches `pattern` do the work that `cost` (a C++ expression, common/cost.h) gives.

    `\\g<type>` in `cost` stands for the number type of the letter that the group `type` matched (S, D, C, Z, H).
    The rule is passed over when the function lacks a parameter that the expression names.
    """

    pattern: str
    cost: str


@dataclass(frozen=True)
class Family:
    name: str  # of the library: lib<name>.so.<major>
    major: int  # of the build for CUDA 13; the installed PyTorch's own word goes before it
    headers: tuple[tuple[str, ...], ...]  # units: headers that one file can include together
    symbols: str  # regular expression of the names that belong to the library
    status: str = "int"  # result type that means success when it is 0
    invalid_handle: str = ""  # result for a handle that is none; empty = not looked at
    unsupported: str = ""  # result of what is not modelled
    version_node: str = "soname"  # of the symbols: "soname", a fixed name, or "" for none
    stream_handle: str = ""  # handle type that carries the stream which work goes to
    silent: str = (
        "$^"  # of the functions that take such a handle, those that put no work on the stream
    )
    not_modelled: str = "$^"  # functions that say so and fail
    host_values: str = "$^"  # getters that are no getters: they write elsewhere than to the host
    include: str = ""  # header of ours that the cost rules need
    needs: str = (
        ""  # folder of the wheel that brings the headers, for the message when they are missing
    )
    costs: tuple[CostRule, ...] = field(default=())

    def owns(self, symbol: str) -> bool:
        return re.fullmatch(self.symbols, symbol) is not None


NUMBERS = {
    "S": "kSingle",
    "D": "kDouble",
    "C": "kComplexSingle",
    "Z": "kComplexDouble",
    "H": "kHalf",
}

_BLAS = (
    CostRule(
        r"cublas(?P<type>[SDCZH])gemm(3m)?(_v2)?(_64)?",
        "gemm(m, n, k, 1, math_number(handle, \\g<type>))",
    ),
    CostRule(
        r"cublas(?P<type>[SDCZH])gemm3?m?(Strided)?Batched(_64)?",
        "gemm(m, n, k, batchCount, math_number(handle, \\g<type>))",
    ),
    CostRule(r"cublas(?P<type>[SC])gemm(3m)?Ex(_64)?", "gemm(m, n, k, 1, number_of(Atype))"),
    CostRule(r"cublasGemmEx(_64)?", "gemm(m, n, k, 1, compute_number(computeType, Atype))"),
    CostRule(
        r"cublasGemm(Strided)?BatchedEx(_64)?",
        "gemm(m, n, k, batchCount, compute_number(computeType, Atype))",
    ),
    CostRule(r"cublas(?P<type>[SDCZ])g[eb]mv(_v2)?(_64)?", "gemv(m, n, 1, \\g<type>)"),
    CostRule(r"cublas(?P<type>[SDCZ])(sy|he|tr)[mr][v2]?(_v2)?(_64)?", "gemv(n, n, 1, \\g<type>)"),
    CostRule(r"cublas(?P<type>[SDCZ])trsm(_v2)?(_64)?", "triangular_solve(m, n, 1, \\g<type>)"),
    CostRule(
        r"cublas(?P<type>[SDCZ])trsmBatched(_64)?", "triangular_solve(m, n, batchCount, \\g<type>)"
    ),
    CostRule(
        r"cublas(?P<type>[SDCZ])getrfBatched", "factorisation(2.0 / 3, n, n, batchSize, \\g<type>)"
    ),
    CostRule(
        r"cublas(?P<type>[SDCZ])getri?s?Batched", "factorisation(2, n, n, batchSize, \\g<type>)"
    ),
    CostRule(r"cublas(?P<type>[SDCZ])geqrfBatched", "factorisation(2, m, n, batchSize, \\g<type>)"),
    CostRule(r"cublas(?P<type>[SDCZ])gelsBatched", "factorisation(2, m, n, batchSize, \\g<type>)"),
    CostRule(
        r"cublas(?P<type>[SDCZ])(dot[uc]?|axpy|copy|swap)(_v2)?(_64)?", "vector(n, 2, \\g<type>)"
    ),
    CostRule(r"cublas(?P<type>[SDCZ])(scal|nrm2|asum)(_v2)?(_64)?", "vector(n, 1, \\g<type>)"),
)

_SOLVER = (
    CostRule(r"cusolverDn(?P<type>[SDCZ])potrf", "factorisation(1.0 / 3, n, n, 1, \\g<type>)"),
    CostRule(
        r"cusolverDn(?P<type>[SDCZ])potrfBatched",
        "factorisation(1.0 / 3, n, n, batchSize, \\g<type>)",
    ),
    CostRule(r"cusolverDn(?P<type>[SDCZ])getrf", "factorisation(2.0 / 3, m, n, 1, \\g<type>)"),
    CostRule(
        r"cusolverDn(?P<type>[SDCZ])(geqrf|gesvd|gesvdj)", "factorisation(4, m, n, 1, \\g<type>)"
    ),
    CostRule(
        r"cusolverDn(?P<type>[SDCZ])gesvdjBatched", "factorisation(4, m, n, batchSize, \\g<type>)"
    ),
    CostRule(
        r"cusolverDn(?P<type>[SDCZ])(syevd|heevd|syevj|heevj)",
        "factorisation(9, n, n, 1, \\g<type>)",
    ),
    CostRule(r"cusolverDn(?P<type>[SDCZ])(getrs|potrs)", "triangular_solve(n, nrhs, 2, \\g<type>)"),
    CostRule(r"cusolverDnXpotrf", "factorisation(1.0 / 3, n, n, 1, number_of(computeType))"),
    CostRule(r"cusolverDnXgetrf", "factorisation(2.0 / 3, m, n, 1, number_of(computeType))"),
    CostRule(r"cusolverDnXgeqrf", "factorisation(4, m, n, 1, number_of(computeType))"),
    CostRule(r"cusolverDnXsyevd", "factorisation(9, n, n, 1, number_of(computeType))"),
)

_DNN = (
    CostRule(r"cudnnBatchNormalizationForward\w+", "pass_cost(xDesc, 3)"),
    CostRule(r"cudnnBatchNormalizationBackward\w*", "pass_cost(xDesc, 5)"),
    CostRule(
        r"cudnn(Softmax|Activation|Pooling|LRNCrossChannel|Dropout)Forward", "pass_cost(xDesc, 2)"
    ),
    CostRule(
        r"cudnn(Softmax|Activation|Pooling|LRNCrossChannel|Dropout)Backward", "pass_cost(dyDesc, 3)"
    ),
    CostRule(r"cudnnDropoutForward", "pass_cost(xdesc, 2)"),
    CostRule(r"cudnnDropoutBackward", "pass_cost(dydesc, 2)"),
    CostRule(
        r"cudnn(AddTensor|ScaleTensor|SetTensor|TransformTensor|ReduceTensor|OpTensor)\w*",
        "pass_cost(aDesc, 2)",
    ),
    CostRule(r"cudnn(ScaleTensor|SetTensor)", "pass_cost(yDesc, 2)"),
    CostRule(r"cudnnTransformTensor", "pass_cost(xDesc, 2)"),
    CostRule(r"cudnnConvolution(BiasActivation)?Forward", "convolution_cost(wDesc, yDesc)"),
    CostRule(r"cudnnConvolutionBackwardData", "convolution_cost(wDesc, dyDesc)"),
    CostRule(r"cudnnConvolutionBackwardFilter", "convolution_cost(dwDesc, dyDesc)"),
    CostRule(
        r"cudnnRNNForward\w*|cudnnRNNBackward(Data|Weights)_v8", "recurrent_cost(rnnDesc, xDesc)"
    ),
    CostRule(r"cudnnSpatialTf\w+", "pass_cost(yDesc, 2)"),
)

FAMILIES = (
    Family(
        name="cublas",
        major=13,
        headers=(("cublas_v2.h", "cublasXt.h"), ("cublas.h",)),
        symbols=r"cublas(?!Lt)\w+",
        status="cublasStatus_t",
        invalid_handle="CUBLAS_STATUS_NOT_INITIALIZED",
        unsupported="CUBLAS_STATUS_NOT_SUPPORTED",
        stream_handle="cublasHandle_t",
        silent=r"cublas(Set|Get|Create|Destroy|Logger)\w+",
        not_modelled=r"cublasXt\w+",
        host_values=r"cublas[SG]et(Vector|Matrix)\w*",
        include="tools/simgpu/stubs/cublas/compute_number.h",
        costs=_BLAS,
    ),
    Family(
        name="cublasLt",
        major=13,
        headers=(("cublasLt.h",),),
        symbols=r"cublasLt\w+",
        status="cublasStatus_t",
        invalid_handle="CUBLAS_STATUS_NOT_INITIALIZED",
        unsupported="CUBLAS_STATUS_NOT_SUPPORTED",
        not_modelled=r"cublasLt\w+_internal",
    ),
    Family(
        name="cudnn",
        major=9,
        headers=(("cudnn.h",),),
        symbols=r"cudnn\w+",
        status="cudnnStatus_t",
        invalid_handle="CUDNN_STATUS_BAD_PARAM",
        unsupported="CUDNN_STATUS_NOT_SUPPORTED",
        stream_handle="cudnnHandle_t",
        silent=r"cudnn\w*(Set(?!Tensor$)|Get|Create|Destroy|Query|Restore|BuildRNN)\w*|cudnnBackend(Initialize|Finalize)",
        include="tools/simgpu/stubs/cudnn/shape.h",
        costs=_DNN,
        not_modelled=r"cudnn(FusedOps|MakeFusedOps|MultiHeadAttn|GetMultiHeadAttn)\w+|cudnnBackend(Populate|Update)CudaGraph",
        needs="nvidia/cudnn/include",
    ),
    Family(
        name="cufft",
        major=12,
        headers=(("cufft.h", "cufftXt.h"),),
        symbols=r"cufft\w+",
        status="cufftResult",
        unsupported="CUFFT_NOT_SUPPORTED",
        not_modelled=r"cufftXt(SetGPUs|Malloc|Memcpy|Free|ExecDescriptor\w*|QueryPlan|SetWorkArea\w*|SetSubformatDefault)",
    ),
    Family(
        name="curand",
        major=10,
        headers=(("curand.h",),),
        symbols=r"curand\w+",
        status="curandStatus_t",
        invalid_handle="CURAND_STATUS_NOT_INITIALIZED",
        unsupported="CURAND_STATUS_TYPE_ERROR",
        stream_handle="curandGenerator_t",
        silent=r"curand(Set|Get|Create|Destroy)\w+",
    ),
    Family(
        name="cusolver",
        major=12,
        headers=(("cusolverDn.h", "cusolverSp.h", "cusolverRf.h"),),
        symbols=r"cusolver(?!Mg)\w+",
        status="cusolverStatus_t",
        invalid_handle="CUSOLVER_STATUS_NOT_INITIALIZED",
        unsupported="CUSOLVER_STATUS_NOT_SUPPORTED",
        stream_handle="cusolverDnHandle_t",
        silent=r"cusolver\w*(Set|Get|Create|Destroy|bufferSize|buffersize|Logger)\w*",
        not_modelled=r"cusolver(Rf|Sp)(?!Create|Destroy|Set|Get)\w+",
        costs=_SOLVER,
    ),
    Family(
        name="cusparse",
        major=12,
        headers=(("cusparse.h",),),
        symbols=r"cusparse(?!Lt)\w+",
        status="cusparseStatus_t",
        invalid_handle="CUSPARSE_STATUS_NOT_INITIALIZED",
        unsupported="CUSPARSE_STATUS_NOT_SUPPORTED",
        stream_handle="cusparseHandle_t",
        silent=r"cusparse\w*(Set|Get|Create|Destroy|bufferSize|zeroPivot|Logger|createDescr|destroyDescr)\w*",
    ),
    Family(
        name="cusparseLt",
        major=0,
        headers=(("cusparseLt.h",),),
        symbols=r"cusparseLt\w+",
        status="cusparseStatus_t",
        unsupported="CUSPARSE_STATUS_NOT_SUPPORTED",
        version_node="",
        needs="nvidia/cusparselt/include",
    ),
    Family(
        name="nvrtc",
        major=13,
        headers=(("nvrtc.h",),),
        symbols=r"nvrtc\w+",
        status="nvrtcResult",
        unsupported="NVRTC_ERROR_INVALID_OPTION",
        not_modelled=r"nvrtc(GetLTOIR|GetOptiXIR|GetNVVM|SetFlowCallback|GetTileIR)\w*",
    ),
    Family(
        name="nccl",
        major=2,
        headers=(("nccl.h",),),
        symbols=r"p?nccl\w+",
        status="ncclResult_t",
        unsupported="ncclInvalidUsage",
        version_node="",
        not_modelled=r"nccl\w+",
        needs="nvidia/nccl/include",
    ),
    Family(
        name="nvshmem_host",
        major=3,
        headers=(),
        symbols=r"nvshmem\w+",
        version_node="NVSHMEM",
    ),
    Family(
        name="cufile",
        major=0,
        headers=(("cufile.h",),),
        symbols=r"cuFile\w+",
        status="CUfileError_t",
        unsupported="CUfileError_t{CU_FILE_DRIVER_NOT_INITIALIZED, CUDA_SUCCESS}",
        version_node="",
        not_modelled=r"cuFile\w+",
    ),
)


def family(name: str) -> Family:
    found = next((f for f in FAMILIES if f.name == name), None)
    if found is None:
        raise KeyError(f"no library {name}; there are {', '.join(f.name for f in FAMILIES)}")
    return found
