// How the plain door raises errors: the only part of it that knows libc10.
//
// Promises: what is thrown is a C++ exception that PyTorch turns into a Python one. Apart from the
// typed case it uses one function of libc10 that no PyTorch 2 has changed.
#pragma once

#include <string>

namespace levee::torch_plugin {

/// c10::OutOfMemoryError if `is_typed`: then the libc10 in this process must be the one that this
/// was compiled against, since the exception object is laid out here. Otherwise c10::Error.
[[noreturn]] void throw_out_of_memory(const std::string& text, bool is_typed);
[[noreturn]] void throw_error(const std::string& text);

}  // namespace levee::torch_plugin
