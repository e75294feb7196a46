// Where a recording goes: the name of its file, and the file.
//
// The default place is `levee_traces/PROGRAM-HOST-PID.levee` under the current folder
// (PROGRAM-HOST-PID-rankN.levee in a distributed job), as other tools of the field put their runs
// there; where that cannot be written, the same under the temporary folder, in `levee_traces-UID`.
// A path that somebody asked for (LEVEE_TRACE, `levee run -o`) is used as it is: `%p` becomes the
// process id, `%h` the host, `%r` the rank, `%%` a percent sign; a name that ends in "/" or is a
// folder gets the default file name in it; in a distributed job "-rankN" is added unless the name
// has %r or %p. An existing file is never overwritten: "-2", "-3", … is added.
// What is no file (/dev/null, a pipe) is refused: no recording is made beside it either.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace levee::record {

/// What a name is made of.
struct TracePlaceFacts {
  std::string program;  ///< name of the script or program, without folder and extension
  std::string host;
  std::uint32_t pid = 0;
  std::int32_t rank = -1;

  /// From /proc and the host name; the rank is the caller's.
  static TracePlaceFacts of_process(std::int32_t rank);
};

/// Name of the program in a command line whose arguments end in '\0': "train" for "python
/// train.py", "pkg.mod" for "python -m pkg.mod".
std::string program_name(std::string_view command_line);

/// The path that a pattern stands for, before "-2" is added.
std::string expand_trace_path(std::string_view pattern, const TracePlaceFacts& facts);

struct OpenedTrace {
  int file = -1;  ///< open for writing, empty; -1 = none
  std::string path;
  std::string notice;  ///< one sentence if it is not where it should be
  std::string why;     ///< if there is none: one sentence
};

/// Creates the file. `pattern` empty: the default place.
OpenedTrace open_trace_file(std::string_view pattern, const TracePlaceFacts& facts);

}  // namespace levee::record
