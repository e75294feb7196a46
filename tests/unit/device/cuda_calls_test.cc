// The real device over a table of functions that are none of CUDA's: which of them it calls, in
// which state, and what it answers when one of them fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "allocator/device/cuda_device.h"
#include "allocator/device/cuda_symbols.h"

namespace levee::device {
namespace {

// What the functions of the table do: count, fail if they are told to, and else succeed.
struct Fake {
  std::vector<std::string> calls;
  std::set<std::string> failing;
  int current = 0;
  int devices = 2;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool has_last_error = false;

  bool fails(const char* name) {
    calls.emplace_back(name);
    return failing.count(name) != 0;
  }
  cudaError_t runtime(const char* name) {
    if (!fails(name)) return cudaSuccess;
    has_last_error = true;
    return cudaErrorNotPermitted;
  }
  CUresult driver(const char* name) {
    return fails(name) ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
  }
  int count(const std::string& name) const {
    return static_cast<int>(std::count(calls.begin(), calls.end(), name));
  }
};
Fake fake;

CudaSymbols fake_symbols() {
  CudaSymbols cuda;
  cuda.get_device_count = [](int* count) {
    *count = fake.devices;
    return fake.runtime("get_device_count");
  };
  cuda.get_device = [](int* device) {
    *device = fake.current;
    return fake.runtime("get_device");
  };
  cuda.set_device = [](int device) {
    const cudaError_t error = fake.runtime("set_device");
    if (error == cudaSuccess) fake.current = device;
    return error;
  };
  cuda.device_get_attribute = [](int* value, cudaDeviceAttr, int) {
    *value = 8;
    return fake.runtime("device_get_attribute");
  };
  cuda.get_last_error = [] {
    fake.has_last_error = false;
    return cudaSuccess;
  };
  cuda.get_error_string = [](cudaError_t) { return "it is not permitted"; };
  cuda.mem_get_info = [](size_t* free, size_t* total) {
    *free = Bytes{1_GiB}.value;
    *total = Bytes{2_GiB}.value;
    return fake.runtime("mem_get_info");
  };
  cuda.malloc = [](void** pointer, size_t) {
    *pointer = reinterpret_cast<void*>(std::uintptr_t{0x1000});
    return fake.runtime("malloc");
  };
  cuda.free = [](void*) { return fake.runtime("free"); };
  cuda.event_create_with_flags = [](cudaEvent_t* event, unsigned) {
    *event = reinterpret_cast<cudaEvent_t>(std::uintptr_t{0x2000});
    return fake.runtime("event_create");
  };
  cuda.event_destroy = [](cudaEvent_t) { return fake.runtime("event_destroy"); };
  cuda.event_record = [](cudaEvent_t, cudaStream_t) { return fake.runtime("event_record"); };
  cuda.event_query = [](cudaEvent_t) { return fake.runtime("event_query"); };
  cuda.event_synchronize = [](cudaEvent_t) { return fake.runtime("event_synchronize"); };
  cuda.stream_wait_event = [](cudaStream_t, cudaEvent_t, unsigned) {
    return fake.runtime("stream_wait_event");
  };
  cuda.stream_synchronize = [](cudaStream_t) { return fake.runtime("stream_synchronize"); };
  cuda.device_synchronize = [] { return fake.runtime("device_synchronize"); };
  cuda.thread_exchange_stream_capture_mode = [](cudaStreamCaptureMode* mode) {
    std::swap(*mode, fake.mode);
    return cudaSuccess;
  };
  cuda.stream_get_capture_info = [](cudaStream_t, cudaStreamCaptureStatus* status,
                                    unsigned long long* id, cudaGraph_t*, const cudaGraphNode_t**,
                                    const cudaGraphEdgeData**, size_t*) {
    *status = fake.capture;
    *id = 17;
    return fake.runtime("capture_info");
  };
  cuda.device_get_name = [](char* name, int, CUdevice) {
    std::copy_n("fake", 5, name);
    return fake.driver("device_get_name");
  };
  cuda.cu_device_get_attribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 1;
    return fake.driver("cu_device_get_attribute");
  };
  cuda.mem_get_allocation_granularity = [](size_t* bytes, const CUmemAllocationProp*,
                                           CUmemAllocationGranularity_flags) {
    *bytes = Bytes{2_MiB}.value;
    return fake.driver("granularity");
  };
  cuda.mem_address_reserve = [](CUdeviceptr* pointer, size_t, size_t, CUdeviceptr,
                                unsigned long long) {
    *pointer = 0x3000;
    return fake.driver("reserve");
  };
  cuda.mem_address_free = [](CUdeviceptr, size_t) { return fake.driver("address_free"); };
  cuda.mem_create = [](CUmemGenericAllocationHandle* handle, size_t, const CUmemAllocationProp*,
                       unsigned long long) {
    *handle = 0x4000;
    return fake.driver("create");
  };
  cuda.mem_release = [](CUmemGenericAllocationHandle) { return fake.driver("mem_release"); };
  cuda.mem_map = [](CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) {
    return fake.driver("map");
  };
  cuda.mem_set_access = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
    return fake.driver("set_access");
  };
  cuda.mem_unmap = [](CUdeviceptr, size_t) { return fake.driver("unmap"); };
  return cuda;
}

struct CallOf {
  std::string function;  // of the table, that it makes
  std::function<Status(CudaDevice&)> make;
};

const DeviceAddr kAddr{Bytes{64_MiB}.value};

std::vector<CallOf> calls() {
  const auto status = [](auto result) { return result.status(); };
  return {
      {"mem_get_info", [=](CudaDevice& d) { return status(d.memory_info()); }},
      {"malloc", [=](CudaDevice& d) { return status(d.allocate(2_MiB)); }},
      {"free", [](CudaDevice& d) { return d.release(kAddr); }},
      {"reserve", [=](CudaDevice& d) { return status(d.reserve_range(2_MiB, 2_MiB)); }},
      {"address_free", [](CudaDevice& d) { return d.free_range(kAddr, 2_MiB); }},
      {"create", [=](CudaDevice& d) { return status(d.create_handle(2_MiB)); }},
      {"mem_release", [](CudaDevice& d) { return d.release_handle(HandleId{1}); }},
      {"map", [](CudaDevice& d) { return d.map(kAddr, 2_MiB, HandleId{1}); }},
      {"set_access", [](CudaDevice& d) { return d.set_access(kAddr, 2_MiB); }},
      {"unmap", [](CudaDevice& d) { return d.unmap(kAddr, 2_MiB); }},
      {"event_create", [=](CudaDevice& d) { return status(d.create_event()); }},
      {"event_destroy", [](CudaDevice& d) { return d.destroy_event(EventId{1}); }},
      {"event_record", [](CudaDevice& d) { return d.record_event(EventId{1}, StreamId{5}); }},
      {"event_query", [](CudaDevice& d) { return d.query_event(EventId{1}); }},
      {"stream_wait_event", [](CudaDevice& d) { return d.wait_event(StreamId{5}, EventId{1}); }},
      {"event_synchronize", [](CudaDevice& d) { return d.synchronize_event(EventId{1}); }},
      {"stream_synchronize", [](CudaDevice& d) { return d.synchronize_stream(StreamId{5}); }},
      {"device_synchronize", [](CudaDevice& d) { return d.synchronize_device(); }},
      {"capture_info", [=](CudaDevice& d) { return status(d.capture_info(StreamId{5})); }},
  };
}

class CudaCalls : public testing::Test {
 protected:
  CudaCalls() : cuda_(fake_symbols()) { fake = Fake{}; }
  void open(int id) {
    Result<std::unique_ptr<Device>> opened = CudaDevice::open(DeviceId{id}, cuda_);
    ASSERT_TRUE(opened.ok());
    device_ = std::move(*opened);
    fake.calls.clear();
  }
  CudaDevice& device() { return static_cast<CudaDevice&>(*device_); }

  CudaSymbols cuda_;
  std::unique_ptr<Device> device_;
};

TEST_F(CudaCalls, EachIsMadeOnItsDeviceAndTheCallersIsCurrentAgain) {
  open(1);
  for (const CallOf& call : calls()) {
    fake.calls.clear();
    EXPECT_TRUE(call.make(device()).ok()) << call.function;
    EXPECT_EQ(fake.count(call.function), 1) << call.function;
    EXPECT_EQ(fake.count("set_device"), 2) << call.function;
    EXPECT_EQ(fake.current, 0) << call.function;
    EXPECT_EQ(fake.mode, cudaStreamCaptureModeGlobal) << call.function;
  }
  fake.current = 1;
  for (const CallOf& call : calls()) {
    fake.calls.clear();
    EXPECT_TRUE(call.make(device()).ok()) << call.function;
    EXPECT_EQ(fake.count("set_device"), 0) << call.function << ": it is current already";
  }
}

TEST_F(CudaCalls, AFailureIsTheAnswerAndNobodyElsesLastError) {
  open(1);
  for (const CallOf& call : calls()) {
    fake.failing = {call.function};
    const Status refused = call.make(device());
    EXPECT_EQ(refused.native_code, static_cast<int>(cudaErrorNotPermitted)) << call.function;
    EXPECT_FALSE(fake.has_last_error) << call.function;
    EXPECT_EQ(fake.current, 0) << call.function;
  }
}

TEST_F(CudaCalls, NoneIsMadeOnAnotherDeviceThanItsOwn) {
  open(1);
  for (const std::string name : {"set_device", "get_device"}) {
    fake.failing = {name};
    for (const CallOf& call : calls()) {
      fake.calls.clear();
      EXPECT_FALSE(call.make(device()).ok()) << call.function;
      EXPECT_EQ(fake.count(call.function), 0) << call.function;
      EXPECT_EQ(fake.count("set_device"), name == "set_device" ? 1 : 0) << call.function;
    }
    EXPECT_FALSE(device().allow_peer(DeviceId{0}).ok());
  }
}

TEST_F(CudaCalls, CapturesAreToldApart) {
  open(0);
  EXPECT_EQ(device().capture_info(StreamId{5})->status, CaptureStatus::kNone);
  fake.capture = cudaStreamCaptureStatusActive;
  EXPECT_EQ(device().capture_info(StreamId{5})->status, CaptureStatus::kActive);
  EXPECT_EQ(device().capture_info(StreamId{5})->id, 17U);
  fake.capture = cudaStreamCaptureStatusInvalidated;
  EXPECT_EQ(device().capture_info(StreamId{5})->status, CaptureStatus::kInvalidated);
}

TEST_F(CudaCalls, APeerIsGivenWhatIsMappedNowAndWhatComes) {
  open(0);
  ASSERT_TRUE(device().set_access(kAddr, 2_MiB).ok());
  ASSERT_TRUE(device().set_access(kAddr + 8_MiB, 2_MiB).ok());
  fake.failing = {"set_access"};
  fake.calls.clear();
  EXPECT_FALSE(device().allow_peer(DeviceId{1}).ok());
  EXPECT_EQ(fake.count("set_access"), 1);
  fake.failing = {};
  fake.calls.clear();
  EXPECT_TRUE(device().allow_peer(DeviceId{1}).ok()) << "it is no peer yet, so it is given again";
  EXPECT_EQ(fake.count("set_access"), 2);
  EXPECT_TRUE(device().allow_peer(DeviceId{1}).ok());
  EXPECT_EQ(fake.count("set_access"), 2) << "it is one now";
  // A page that could not be unmapped keeps its access, and one that could not be granted has none.
  fake.failing = {"unmap"};
  EXPECT_FALSE(device().unmap(kAddr, 2_MiB).ok());
  fake.failing = {"set_access"};
  EXPECT_FALSE(device().set_access(kAddr + 32_MiB, 2_MiB).ok());
  fake.failing = {};
  ASSERT_TRUE(device().unmap(kAddr + 8_MiB, 2_MiB).ok());
  fake.calls.clear();
  EXPECT_TRUE(device().allow_peer(DeviceId{2}).ok());
  EXPECT_EQ(fake.count("set_access"), 1);
}

TEST_F(CudaCalls, OpeningFailsWithTheFirstFunctionThatDoes) {
  for (const char* name : {"get_device_count", "mem_get_info", "device_get_attribute"}) {
    fake.failing = {name};
    const auto refused = CudaDevice::open(DeviceId{0}, cuda_);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.status().native_code, static_cast<int>(cudaErrorNotPermitted)) << name;
  }
  fake.failing = {};
  EXPECT_EQ(CudaDevice::open(DeviceId{2}, cuda_).code(), StatusCode::kInvalidArgument);
  open(1);
  EXPECT_EQ(device_->capabilities().name, "fake");
  EXPECT_EQ(device_->capabilities().total_memory, 2_GiB);
  EXPECT_EQ(device_->capabilities().compute_major, 8);
  EXPECT_TRUE(device_->capabilities().has_vmm);
  fake.failing = {"device_get_name"};
  open(1);
  EXPECT_EQ(device_->capabilities().name, "CUDA device 1");
  cuda_.device_get_name = nullptr;
  open(0);
  EXPECT_EQ(device_->capabilities().name, "CUDA device 0");
}

TEST_F(CudaCalls, DevicesAreCountedOrTheProblemIsNamed) {
  EXPECT_EQ(cuda_device_count(cuda_), 2);
  EXPECT_EQ(cuda_problem(cuda_), "");
  fake.devices = 0;
  EXPECT_NE(cuda_problem(cuda_).find("no GPU"), std::string::npos);
  fake.devices = 2;
  fake.failing = {"get_device_count"};
  EXPECT_EQ(cuda_device_count(cuda_), 0);
  EXPECT_NE(cuda_problem(cuda_).find("it is not permitted"), std::string::npos);
  cuda_.problem = "There is none.";
  EXPECT_EQ(cuda_device_count(cuda_), 0);
  EXPECT_EQ(cuda_problem(cuda_), "There is none.");
}

TEST_F(CudaCalls, WhyThereIsNoGpuIsNamed) {
  static cudaError_t answer;
  cuda_.get_device_count = [](int* count) {
    *count = 0;
    return answer;
  };
  for (const cudaError_t no_driver : {cudaErrorInsufficientDriver, cudaErrorStubLibrary}) {
    answer = no_driver;
    EXPECT_NE(cuda_problem(cuda_).find("no NVIDIA driver"), std::string::npos) << no_driver;
  }
  for (const cudaError_t no_gpu : {cudaErrorNoDevice, cudaSuccess}) {
    answer = no_gpu;
    EXPECT_NE(cuda_problem(cuda_).find("sees no GPU"), std::string::npos) << no_gpu;
  }
}

TEST_F(CudaCalls, WithoutALibraryNothingIsOpened) {
  cuda_.problem = "There is none.";
  EXPECT_EQ(CudaDevice::open(DeviceId{0}, cuda_).code(), StatusCode::kUnsupported);
  EXPECT_TRUE(fake.calls.empty());
}

TEST_F(CudaCalls, ADeviceWithoutVirtualMemoryIsNotAskedForIt) {
  cuda_.mem_map = nullptr;
  open(0);
  ASSERT_FALSE(device().capabilities().has_vmm);
  const auto is_refused = [](Status status) {
    return status.native_code == static_cast<std::int32_t>(cudaErrorNotSupported);
  };
  fake.calls.clear();
  EXPECT_TRUE(is_refused(device().reserve_range(2_MiB, 2_MiB).status()));
  EXPECT_TRUE(is_refused(device().free_range(kAddr, 2_MiB)));
  EXPECT_TRUE(is_refused(device().create_handle(2_MiB).status()));
  EXPECT_TRUE(is_refused(device().release_handle(HandleId{5})));
  EXPECT_TRUE(is_refused(device().map(kAddr, 2_MiB, HandleId{5})));
  EXPECT_TRUE(is_refused(device().set_access(kAddr, 2_MiB)));
  EXPECT_TRUE(is_refused(device().unmap(kAddr, 2_MiB)));
  for (const std::string& call : fake.calls) EXPECT_EQ(call.find("_device"), 3U) << call;
}

// The program's own last error is the program's: only one of ours is taken away again.
TEST_F(CudaCalls, ACallThatSucceedsLeavesTheLastErrorAlone) {
  open(0);
  fake.has_last_error = true;
  EXPECT_TRUE(device().memory_info().ok());
  EXPECT_TRUE(device().allocate(2_MiB).ok());
  EXPECT_TRUE(fake.has_last_error);
}

// ---- The judge of the stand-in GPU

std::vector<std::string> told;

TEST_F(CudaCalls, TheJudgeIsToldWhereThereIsOne) {
  open(0);
  device().note_use(kAddr, 2_MiB, StreamId{5}, UseKind::kShare);  // to nobody
  device().note_pool_lock(true);
  cuda_.simgpu_note_use = [](std::uint64_t address, std::uint64_t bytes, void*, int) {
    told.push_back("use " + std::to_string(address >> 20) + " " + std::to_string(bytes >> 20));
  };
  cuda_.simgpu_note_pool_lock = [](int held) { told.push_back(held != 0 ? "lock" : "unlock"); };
  told.clear();
  device().note_use(kAddr, 2_MiB, StreamId{5}, UseKind::kShare);
  device().note_pool_lock(true);
  device().note_pool_lock(false);
  EXPECT_EQ(told, (std::vector<std::string>{"use 64 2", "lock", "unlock"}));
}

}  // namespace
}  // namespace levee::device
