"""The libraries that the generator makes, one `Family` each: where its declarations are and how its functions behave.

Everything here is about names. What a function does follows from its name and its parameters by the rules in
`emit.py`; a family says which names are exceptions. What needs more than rules is written by hand in the folder of
that name and replaces the generated function at link time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """What the functions whose name matches `pattern` do, as a C++ expression over their parameters.

    `\\g<type>` stands for the number type of the letter that the group `type` matched (S, D, C, Z, H). A rule is passed
    over for a function that lacks a parameter which the expression names.
    """

    pattern: str
    expression: str


@dataclass(frozen=True)
class Family:
    """One library.

    name            of the library: lib<name>.so.<major>
    major           of the build for CUDA 13; the installed PyTorch's own word goes before it
    headers         units: headers that one file can include together
    symbols         regular expression of the names that belong to the library
    status          result type that means success when it is 0
    invalid_handle  result for a handle that is none; empty: handles are not looked at
    unsupported     result of what is not modelled
    version_node    of the symbols: "soname", a fixed name, or "" for none
    stream_handle   handle type that carries the stream which work goes to
    silent          of the functions that take such a handle, those that put no work on the stream
    not_modelled    functions that say so and fail
    host_values     getters that are no getters: they write elsewhere than to the host
    include         header of ours that the rules need
    costs           how much work a function is: a `Cost` (common/cost.h)
    writes          what a function overwrites: those bytes are forgotten, so that they read as 0 (common/outputs.h)
    """

    name: str
    major: int
    headers: tuple[tuple[str, ...], ...]
    symbols: str
    status: str = "int"
    invalid_handle: str = ""
    unsupported: str = ""
    version_node: str = "soname"
    stream_handle: str = ""
    silent: str = "$^"
    not_modelled: str = "$^"
    host_values: str = "$^"
    include: str = ""
    costs: tuple[Rule, ...] = ()
    writes: tuple[Rule, ...] = ()

    def owns(self, symbol: str) -> bool:
        return re.fullmatch(self.symbols, symbol) is not None


NUMBERS = {
    "S": "kSingle",
    "D": "kDouble",
    "C": "kComplexSingle",
    "Z": "kComplexDouble",
    "H": "kHalf",
}

_BLAS_COSTS = (
    Rule(
        r"cublas(?P<type>[SDCZH])gemm(3m)?(_v2)?(_64)?",
        "gemm(m, n, k, 1, math_number(handle, \\g<type>))",
    ),
    Rule(
        r"cublas(?P<type>[SDCZH])gemm3?m?(Strided)?Batched(_64)?",
        "gemm(m, n, k, batchCount, math_number(handle, \\g<type>))",
    ),
    Rule(r"cublas(?P<type>[SC])gemm(3m)?Ex(_64)?", "gemm(m, n, k, 1, number_of(Atype))"),
    Rule(r"cublasGemmEx(_64)?", "gemm(m, n, k, 1, compute_number(handle, computeType, Atype))"),
    Rule(
        r"cublasGemm(Strided)?BatchedEx(_64)?",
        "gemm(m, n, k, batchCount, compute_number(handle, computeType, Atype))",
    ),
    Rule(r"cublas(?P<type>[SDCZ])g[eb]mv(_v2)?(_64)?", "gemv(m, n, 1, \\g<type>)"),
    Rule(r"cublas(?P<type>[SDCZ])(sy|he|tr)[mr][v2]?(_v2)?(_64)?", "gemv(n, n, 1, \\g<type>)"),
    Rule(r"cublas(?P<type>[SDCZ])trsm(_v2)?(_64)?", "triangular_solve(m, n, 1, \\g<type>)"),
    Rule(
        r"cublas(?P<type>[SDCZ])trsmBatched(_64)?", "triangular_solve(m, n, batchCount, \\g<type>)"
    ),
    Rule(
        r"cublas(?P<type>[SDCZ])getrfBatched", "factorisation(2.0 / 3, n, n, batchSize, \\g<type>)"
    ),
    Rule(r"cublas(?P<type>[SDCZ])getri?s?Batched", "factorisation(2, n, n, batchSize, \\g<type>)"),
    Rule(r"cublas(?P<type>[SDCZ])geqrfBatched", "factorisation(2, m, n, batchSize, \\g<type>)"),
    Rule(r"cublas(?P<type>[SDCZ])gelsBatched", "factorisation(2, m, n, batchSize, \\g<type>)"),
    Rule(r"cublas(?P<type>[SDCZ])(dot[uc]?|axpy|copy|swap)(_v2)?(_64)?", "vector(n, 2, \\g<type>)"),
    Rule(r"cublas(?P<type>[SDCZ])(scal|nrm2|asum)(_v2)?(_64)?", "vector(n, 1, \\g<type>)"),
)

_BLAS_WRITES = (
    Rule(r"cublas(?P<type>[SDCZH])gemm(3m)?(_v2)?(_64)?", "forget_matrix(C, m, n, ldc, \\g<type>)"),
    Rule(
        r"cublas(?P<type>[SDCZH])gemm(3m)?StridedBatched(_64)?",
        "forget_matrices(C, m, n, ldc, strideC, batchCount, \\g<type>)",
    ),
    Rule(r"cublas([SC]gemm(3m)?|Gemm)Ex(_64)?", "forget_matrix(C, m, n, ldc, number_of(Ctype))"),
    Rule(
        r"cublasGemmStridedBatchedEx(_64)?",
        "forget_matrices(C, m, n, ldc, strideC, batchCount, number_of(Ctype))",
    ),
    Rule(
        r"cublas(?P<type>[SDCZ])gemv(_v2)?(_64)?",
        "forget_matrix(y, 1, trans == CUBLAS_OP_N ? m : n, incy, \\g<type>)",
    ),
)

_SOLVER_COSTS = (
    Rule(r"cusolverDn(?P<type>[SDCZ])potrf", "factorisation(1.0 / 3, n, n, 1, \\g<type>)"),
    Rule(
        r"cusolverDn(?P<type>[SDCZ])potrfBatched",
        "factorisation(1.0 / 3, n, n, batchSize, \\g<type>)",
    ),
    Rule(r"cusolverDn(?P<type>[SDCZ])getrf", "factorisation(2.0 / 3, m, n, 1, \\g<type>)"),
    Rule(r"cusolverDn(?P<type>[SDCZ])(geqrf|gesvd|gesvdj)", "factorisation(4, m, n, 1, \\g<type>)"),
    Rule(
        r"cusolverDn(?P<type>[SDCZ])gesvdjBatched", "factorisation(4, m, n, batchSize, \\g<type>)"
    ),
    Rule(
        r"cusolverDn(?P<type>[SDCZ])(syevd|heevd|syevj|heevj)",
        "factorisation(9, n, n, 1, \\g<type>)",
    ),
    Rule(r"cusolverDn(?P<type>[SDCZ])(getrs|potrs)", "triangular_solve(n, nrhs, 2, \\g<type>)"),
    Rule(r"cusolverDnXpotrf", "factorisation(1.0 / 3, n, n, 1, number_of(computeType))"),
    Rule(r"cusolverDnXgetrf", "factorisation(2.0 / 3, m, n, 1, number_of(computeType))"),
    Rule(r"cusolverDnXgeqrf", "factorisation(4, m, n, 1, number_of(computeType))"),
    Rule(r"cusolverDnXsyevd", "factorisation(9, n, n, 1, number_of(computeType))"),
)

_DNN_COSTS = (
    Rule(r"cudnnBatchNormalizationForward\w+", "pass_cost(xDesc, 3)"),
    Rule(r"cudnnBatchNormalizationBackward\w*", "pass_cost(xDesc, 5)"),
    Rule(
        r"cudnn(Softmax|Activation|Pooling|LRNCrossChannel|Dropout)Forward", "pass_cost(xDesc, 2)"
    ),
    Rule(
        r"cudnn(Softmax|Activation|Pooling|LRNCrossChannel|Dropout)Backward", "pass_cost(dyDesc, 3)"
    ),
    Rule(r"cudnnDropoutForward", "pass_cost(xdesc, 2)"),
    Rule(r"cudnnDropoutBackward", "pass_cost(dydesc, 2)"),
    Rule(
        r"cudnn(AddTensor|ScaleTensor|SetTensor|TransformTensor|ReduceTensor|OpTensor)\w*",
        "pass_cost(aDesc, 2)",
    ),
    Rule(r"cudnn(ScaleTensor|SetTensor)", "pass_cost(yDesc, 2)"),
    Rule(r"cudnnTransformTensor", "pass_cost(xDesc, 2)"),
    Rule(r"cudnnConvolution(BiasActivation)?Forward", "convolution_cost(wDesc, yDesc)"),
    Rule(r"cudnnConvolutionBackwardData", "convolution_cost(wDesc, dyDesc)"),
    Rule(r"cudnnConvolutionBackwardFilter", "convolution_cost(dwDesc, dyDesc)"),
    Rule(r"cudnnRNNForward\w*|cudnnRNNBackward(Data|Weights)_v8", "recurrent_cost(rnnDesc, xDesc)"),
    Rule(r"cudnnSpatialTf\w+", "pass_cost(yDesc, 2)"),
)

_DNN_WRITES = (
    Rule(r"cudnnBatchNormalizationForward\w+", "forget_tensor(yDesc, yData)"),
    Rule(r"cudnnBatchNormalizationForward\w+", "forget_tensor(yDesc, y)"),
    Rule(r"cudnnBatchNormalizationBackwardEx", "forget_tensor(dxDesc, dxData)"),
    Rule(r"cudnn\w+(Forward|Fwd)", "forget_tensor(yDesc, y)"),
    Rule(
        r"cudnn\w+BackwardData|cudnn(Softmax|Activation|Pooling)Backward",
        "forget_tensor(dxDesc, dx)",
    ),
    Rule(r"cudnnConvolutionBackwardFilter", "forget_tensor(dwDesc, dw)"),
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
        costs=_BLAS_COSTS,
        writes=_BLAS_WRITES,
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
        silent=(
            r"cudnn\w*(Set(?!Tensor$)|Get|Create|Destroy|Query|Restore|BuildRNN)\w*"
            r"|cudnnBackend(Initialize|Finalize)"
        ),
        include="tools/simgpu/stubs/cudnn/shape.h",
        costs=_DNN_COSTS,
        writes=_DNN_WRITES,
        not_modelled=(
            r"cudnn(FusedOps|MakeFusedOps|MultiHeadAttn|GetMultiHeadAttn)\w+"
            r"|cudnnBackend(Populate|Update)CudaGraph"
        ),
    ),
    Family(
        name="cufft",
        major=12,
        headers=(("cufft.h", "cufftXt.h"),),
        symbols=r"cufft\w+",
        status="cufftResult",
        unsupported="CUFFT_NOT_SUPPORTED",
        not_modelled=(
            r"cufftXt(SetGPUs|Malloc|Memcpy|Free|ExecDescriptor\w*|QueryPlan|SetWorkArea\w*"
            r"|SetSubformatDefault)"
        ),
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
        costs=_SOLVER_COSTS,
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
