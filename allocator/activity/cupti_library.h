// The functions of CUPTI that levee uses, found at run time.
//
// Promises: a library that is already in the process is preferred (PyTorch loads the one that it
// was built with, simgpu its own); either all functions are there or the library is refused, with
// the name of the missing one. A loaded library is never unloaded.
#pragma once

#include <string>
#include <vector>

#include <cupti.h>

namespace levee::activity {

struct CuptiLibrary {
  decltype(&::cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&::cuptiGetResultString) get_result_string = nullptr;
  decltype(&::cuptiSubscribe) subscribe = nullptr;
  decltype(&::cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::cuptiActivityEnable) enable = nullptr;
  decltype(&::cuptiActivityDisable) disable = nullptr;
  decltype(&::cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&::cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) get_dropped = nullptr;
  decltype(&::cuptiGetStreamIdEx) get_stream_id = nullptr;
  std::string path;

  /// False, and one sentence in `why`, if there is no usable one.
  bool load(const std::string& only_this, const std::vector<std::string>& folders,
            std::string* why);
  /// "CUPTI_ERROR_NOT_INITIALIZED", or the number.
  std::string text_of(CUptiResult result) const;

 private:
  bool resolve(void* handle, std::string* missing);
};

}  // namespace levee::activity
