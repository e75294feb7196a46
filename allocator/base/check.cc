#include "allocator/base/check.h"

#include <cstdlib>

#include <unistd.h>

namespace levee::base {

void die(const TextWriter& text) {
  // write(2) and not a stream: no lock, no buffer, no heap. A failed write is ignored, since the
  // process ends anyway.
  std::string_view rest = text.view();
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!text.view().ends_with('\n') && ::write(STDERR_FILENO, "\n", 1) < 0) std::abort();
  std::abort();
}

namespace detail {
void begin_message(TextWriter& text, const char* file, int line, const char* condition) {
  text << "levee: check failed at " << file << ":" << line << ": " << condition;
}
}  // namespace detail

}  // namespace levee::base
