#include "torch_plugin/pluggable_errors.h"

#include <c10/util/Exception.h>

namespace levee::torch_plugin {

void throw_out_of_memory(const std::string& text, bool is_typed) {
  if (is_typed) TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  throw_error(text);
}

void throw_error(const std::string& text) {
  ::c10::detail::torchCheckFail("levee", __FILE__, __LINE__, text);
}

}  // namespace levee::torch_plugin
