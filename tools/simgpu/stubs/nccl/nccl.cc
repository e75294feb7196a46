// NCCL's functions. What they promise here: results are true, for any number of ranks in one
// process (one thread in a group, or a thread per rank) and for processes of one machine that meet
// through /dev/shm, up to `nccl_bytes` a contribution; larger collectives keep ranks in step and
// take their time, and leave the buffers as they are. Communicators, splits and aborts behave;
// registration, windows and the device-side interface are not modelled and say so.
//
// Settings: `nccl_bytes` (default 1 MiB), `nccl_timeout_s` (default 1800).
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/nccl/communicator.h"
#include "tools/simgpu/stubs/nccl/group.h"
#include "tools/simgpu/stubs/nccl/numbers.h"
#include "tools/simgpu/stubs/nccl/operation.h"

namespace {

using namespace levee::simgpu::nccl;

std::string board_name(const ncclUniqueId& id) {
  return std::string(id.internal, strnlen(id.internal, sizeof id.internal));
}

ncclResult_t join(ncclComm_t* comm, const std::string& name, int ranks, int rank) {
  if (comm == nullptr) return failed(ncclInvalidArgument, "the communicator's address is null");
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
    return failed(ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                      " cannot be; simgpu's NCCL connects up to " + std::to_string(kMaxRanks));
  }
  if (name.rfind("simgpu-nccl-", 0) != 0) {
    return failed(ncclInvalidArgument, "the unique id was not made by simgpu's NCCL");
  }
  auto made = std::make_unique<ncclComm>(name, ranks, rank);
  if (!made->board().is_open()) return failed(ncclSystemError, made->board().error());
  *comm = made.release();
  return submit(std::make_unique<Join>(*comm));
}

/// Checks that every call with buffers shares, then hands the operation on.
ncclResult_t collective(ncclComm_t comm, CollectiveCall call) {
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr)
    return failed(ncclInvalidArgument, "the communicator is null or has been destroyed");
  if (size_of(call.type) == 0) return failed(ncclInvalidArgument, "unknown data type");
  if (call.root < 0 || call.root >= communicator->ranks()) {
    return failed(ncclInvalidArgument,
                  "root " + std::to_string(call.root) + " is no rank of the communicator");
  }
  if (call.reduction >= ncclNumOps) {
    const auto found = communicator->premultipliers.find(call.reduction);
    if (found == communicator->premultipliers.end())
      return failed(ncclInvalidArgument, "unknown reduction");
    call.premultiplier = found->second;
  }
  return submit(std::make_unique<Collective>(communicator, call));
}

/// NCCL's memory is the runtime's; this library links nothing of it.
template <typename Function>
Function runtime_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  SIMGPU_TRACE_CALL("nccl");
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  SIMGPU_TRACE_CALL("nccl");
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  SIMGPU_TRACE_CALL("nccl");
  return last_error();
}

// ---- Communicators

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  SIMGPU_TRACE_CALL("nccl");
  if (uniqueId == nullptr) return ncclInvalidArgument;
  std::memset(uniqueId, 0, sizeof *uniqueId);
  const std::string name = unique_board_name();
  std::memcpy(uniqueId->internal, name.data(),
              std::min(name.size(), sizeof uniqueId->internal - 1));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  SIMGPU_TRACE_CALL("nccl");
  return join(comm, board_name(commId), nranks, rank);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* /*config*/) {
  SIMGPU_TRACE_CALL("nccl");
  return join(comm, board_name(commId), nranks, rank);
}

#if NCCL_VERSION_CODE >= 22300
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* /*config*/) {
  SIMGPU_TRACE_CALL("nccl");
  if (nId < 1 || commIds == nullptr) return failed(ncclInvalidArgument, "no unique id was given");
  return join(newcomm, board_name(commIds[0]), nranks,
              myrank);  // one machine needs one meeting point
}
#endif

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  SIMGPU_TRACE_CALL("nccl");
  if (comm == nullptr || ndev < 1) return failed(ncclInvalidArgument, "no devices were given");
  const auto set_device = runtime_function<int (*)(int)>("cudaSetDevice");
  if (set_device == nullptr) return failed(ncclSystemError, "the CUDA runtime is not loaded");
  const int device_before = simgpu_current_device();
  const std::string name = unique_board_name();
  group_start();
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < ndev && result == ncclSuccess; ++i) {
    if (set_device(devlist == nullptr ? i : devlist[i]) != 0) {
      result = failed(ncclUnhandledCudaError,
                      "there is no device " + std::to_string(devlist == nullptr ? i : devlist[i]));
      break;
    }
    result = join(&comm[i], name, ndev, i);
  }
  if (result == ncclSuccess) {
    result = group_end();
  } else {
    group_abandon();
  }
  set_device(device_before);
  return result;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  SIMGPU_TRACE_CALL("nccl");
  return ncclComm::from(comm) == nullptr ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  SIMGPU_TRACE_CALL("nccl");
  if (comm == nullptr) return ncclSuccess;
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr)
    return failed(ncclInvalidArgument, "the communicator has been destroyed before");
  ncclComm::end(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  SIMGPU_TRACE_CALL("nccl");
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* /*config*/) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || newcomm == nullptr)
    return failed(ncclInvalidArgument, "the communicator is null");
  return submit(std::make_unique<Split>(communicator, color, key, newcomm));
}

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* /*config*/, int /*shrinkFlags*/) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || newcomm == nullptr || excludeRanksList == nullptr ||
      excludeRanksCount < 1) {
    return failed(ncclInvalidArgument, "no communicator, or no ranks to leave out");
  }
  const auto is_excluded = [&](int rank) {
    return std::find(excludeRanksList, excludeRanksList + excludeRanksCount, rank) !=
           excludeRanksList + excludeRanksCount;
  };
  int ranks = 0;
  int rank = 0;
  for (int i = 0; i < communicator->ranks(); ++i) {
    if (is_excluded(i)) continue;
    if (i < communicator->rank()) ++rank;
    ++ranks;
  }
  if (is_excluded(communicator->rank()))
    return failed(ncclInvalidArgument, "a rank that is left out must not call");
  return join(newcomm,
              communicator->name() + "-" + std::to_string(++communicator->communicators_made) + "s",
              ranks, rank);
}
#endif

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  SIMGPU_TRACE_CALL("nccl");
  if (ncclComm::from(comm) == nullptr || asyncError == nullptr) return ncclInvalidArgument;
  *asyncError = ncclSuccess;  // operations are over, or have failed, when their call returns
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = communicator->ranks();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || device == nullptr) return ncclInvalidArgument;
  *device = communicator->device();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = communicator->rank();
  return ncclSuccess;
}

// Registration speeds real links up; here there is nothing to speed up, and programs may go on.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t /*size*/, void** handle) {
  SIMGPU_TRACE_CALL("nccl");
  if (ncclComm::from(comm) == nullptr || handle == nullptr) return ncclInvalidArgument;
  *handle = buff;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* /*handle*/) {
  SIMGPU_TRACE_CALL("nccl");
  return ncclComm::from(comm) == nullptr ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  SIMGPU_TRACE_CALL("nccl");
  const auto allocate = runtime_function<int (*)(void**, size_t)>("cudaMalloc");
  if (allocate == nullptr) return failed(ncclSystemError, "the CUDA runtime is not loaded");
  return allocate(ptr, size) == 0 ? ncclSuccess : failed(ncclUnhandledCudaError, "out of memory");
}
ncclResult_t ncclMemFree(void* ptr) {
  SIMGPU_TRACE_CALL("nccl");
  const auto release = runtime_function<int (*)(void*)>("cudaFree");
  if (release == nullptr) return failed(ncclSystemError, "the CUDA runtime is not loaded");
  return release(ptr) == 0 ? ncclSuccess
                           : failed(ncclUnhandledCudaError, "the address is not allocated");
}

// ---- Reductions with a factor

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t /*residence*/, ncclComm_t comm) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || op == nullptr || scalar == nullptr || size_of(datatype) == 0) {
    return failed(ncclInvalidArgument, "a factor needs a communicator, an address and a type");
  }
  std::byte bytes[16];
  simgpu_read(bytes, scalar, size_of(datatype));
  const int number = communicator->next_operation++;
  communicator->premultipliers[number] = to_double(datatype, bytes);
  *op = static_cast<ncclRedOp_t>(number);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr) return ncclInvalidArgument;
  return communicator->premultipliers.erase(op) == 1
             ? ncclSuccess
             : failed(ncclInvalidArgument, "unknown reduction");
}

// ---- Groups

ncclResult_t ncclGroupStart() {
  SIMGPU_TRACE_CALL("nccl");
  group_start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  SIMGPU_TRACE_CALL("nccl");
  return group_end();
}

// ---- Collectives

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kAllReduce,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = count,
                           .type = datatype,
                           .reduction = op,
                           .stream = stream});
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kReduce,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = count,
                           .type = datatype,
                           .reduction = op,
                           .root = root,
                           .stream = stream});
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kBroadcast,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = count,
                           .type = datatype,
                           .root = root,
                           .stream = stream});
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kAllGather,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = sendcount,
                           .type = datatype,
                           .stream = stream});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kReduceScatter,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = recvcount,
                           .type = datatype,
                           .reduction = op,
                           .stream = stream});
}

#if NCCL_VERSION_CODE >= 22800
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kAlltoAll,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = count,
                           .type = datatype,
                           .stream = stream});
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kGather,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = count,
                           .type = datatype,
                           .root = root,
                           .stream = stream});
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  return collective(comm, {.kind = CollectiveKind::kScatter,
                           .send = sendbuff,
                           .receive = recvbuff,
                           .count = count,
                           .type = datatype,
                           .root = root,
                           .stream = stream});
}
#endif

// ---- Pairs

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || peer < 0 || peer >= communicator->ranks() ||
      size_of(datatype) == 0) {
    return failed(ncclInvalidArgument, "no communicator, unknown peer or unknown type");
  }
  return submit(
      std::make_unique<Send>(communicator, sendbuff, count * size_of(datatype), peer, stream));
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("nccl");
  ncclComm* communicator = ncclComm::from(comm);
  if (communicator == nullptr || peer < 0 || peer >= communicator->ranks() ||
      size_of(datatype) == 0) {
    return failed(ncclInvalidArgument, "no communicator, unknown peer or unknown type");
  }
  return submit(
      std::make_unique<Receive>(communicator, recvbuff, count * size_of(datatype), peer, stream));
}
