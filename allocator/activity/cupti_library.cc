#include "allocator/activity/cupti_library.h"

#include <dlfcn.h>

namespace levee::activity {
namespace {

// SONAMEs of the CUDA versions whose records the translator knows.
constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12"};

void* open_any(const std::string& folder, int flags) {
  for (const char* name : kNames) {
    const std::string path = folder.empty() ? std::string(name) : folder + "/" + name;
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags)) return handle;
  }
  return nullptr;
}

}  // namespace

bool CuptiLibrary::resolve(void* handle, std::string* missing) {
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr) *missing = name;
    return function != nullptr;
  };
  const bool ok = find(get_timestamp, "cuptiGetTimestamp") &&
                  find(get_result_string, "cuptiGetResultString") &&
                  find(subscribe, "cuptiSubscribe") && find(unsubscribe, "cuptiUnsubscribe") &&
                  find(register_callbacks, "cuptiActivityRegisterCallbacks") &&
                  find(enable, "cuptiActivityEnable") && find(disable, "cuptiActivityDisable") &&
                  find(flush_all, "cuptiActivityFlushAll") &&
                  find(get_next_record, "cuptiActivityGetNextRecord") &&
                  find(get_dropped, "cuptiActivityGetNumDroppedRecords") &&
                  find(get_stream_id, "cuptiGetStreamIdEx");
  if (!ok) return false;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(get_timestamp), &info) != 0 && info.dli_fname != nullptr)
    path = info.dli_fname;
  return true;
}

bool CuptiLibrary::load(const std::string& only_this, const std::vector<std::string>& folders,
                        std::string* why) {
  void* handle = nullptr;
  if (!only_this.empty()) {
    handle = ::dlopen(only_this.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      *why = "CUPTI cannot be loaded from " + only_this + ": " + ::dlerror() + ".";
      return false;
    }
  } else {
    handle = open_any("", RTLD_NOLOAD);
    if (handle == nullptr) handle = open_any("", 0);
    for (std::size_t i = 0; handle == nullptr && i < folders.size(); ++i)
      handle = open_any(folders[i], 0);
  }
  if (handle == nullptr) {
    std::string places;
    for (const std::string& folder : folders)
      places += (places.empty() ? ", nor in " : ", ") + folder;
    *why = "CUPTI (libcupti.so.13 or .12) is not loaded, not on the library path" + places +
           "; it comes with PyTorch's CUDA wheels and with the CUDA toolkit.";
    return false;
  }
  std::string missing;
  if (!resolve(handle, &missing)) {
    *why = "This CUPTI has no " + missing +
           ", so kernels cannot be timed; install the one that belongs to your CUDA version.";
    return false;
  }
  return true;
}

std::string CuptiLibrary::text_of(CUptiResult result) const {
  const char* text = nullptr;
  if (get_result_string(result, &text) == CUPTI_SUCCESS && text != nullptr) return text;
  return "CUPTI error " + std::to_string(static_cast<int>(result));
}

}  // namespace levee::activity
