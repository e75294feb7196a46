#include "allocator/record/trace_path.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

namespace levee::record {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxSameNames = 1000;

std::string without_folder_and_extension(std::string_view path) {
  const fs::path name = fs::path(path).filename();
  return name.extension() == ".py" ? name.stem().string() : name.string();
}

// What may stand in a file name anywhere.
std::string sanitized(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, 64)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    name += is_plain ? c : '_';
  }
  return name.empty() || name[0] == '.' ? "program" + name : name;
}

std::string default_file_name(const TracePlaceFacts& facts) {
  std::string name =
      sanitized(facts.program) + "-" + sanitized(facts.host) + "-" + std::to_string(facts.pid);
  if (facts.rank >= 0) name += "-rank" + std::to_string(facts.rank);
  return name + ".levee";
}

// Something that is neither a file nor a folder. A name like it, as for an existing file, would put
// a recording among the devices.
bool is_no_place(const std::string& path) {
  std::error_code ignored;
  return fs::is_other(path, ignored);
}

// Creates `path`, or the next free name like it. -1 and errno if that fails.
int create_new(std::string& path) {
  const fs::path wanted(path);
  for (int i = 1; i <= kMaxSameNames; ++i) {
    if (i > 1) {
      path = (wanted.parent_path() / wanted.stem()).string() + "-" + std::to_string(i) +
             wanted.extension().string();
    }
    const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

OpenedTrace create_in(const fs::path& path) {
  OpenedTrace opened;
  std::error_code failed;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failed);
  opened.path = path.string();
  if (failed) {
    opened.why = path.parent_path().string() + " cannot be made: " + failed.message();
    return opened;
  }
  opened.file = create_new(opened.path);
  if (opened.file < 0) opened.why = opened.path + " cannot be made: " + std::strerror(errno);
  return opened;
}

}  // namespace

std::string program_name(std::string_view command_line) {
  std::vector<std::string_view> arguments;
  while (!command_line.empty()) {
    arguments.push_back(command_line.substr(0, command_line.find('\0')));
    command_line.remove_prefix(std::min(arguments.back().size() + 1, command_line.size()));
  }
  if (arguments.empty()) return "program";
  const std::string first = fs::path(arguments[0]).filename().string();
  if (!first.starts_with("python")) return without_folder_and_extension(arguments[0]);
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "-c") return "python";
    if (arguments[i] == "-m" && i + 1 < arguments.size()) {
      // A launcher is not the program: what it runs is.
      if (arguments[i + 1] != "levee") return std::string(arguments[i + 1]);
      ++i;
      continue;
    }
    if (arguments[i].ends_with(".py")) return without_folder_and_extension(arguments[i]);
    // The installed command is a script without extension: `python /usr/bin/levee run train.py`.
    if (fs::path(arguments[i]).filename() == "levee") continue;
    const bool is_word = !arguments[i].starts_with('-');
    if (is_word && arguments[i] != "run") return without_folder_and_extension(arguments[i]);
  }
  return "python";
}

TracePlaceFacts TracePlaceFacts::of_process(std::int32_t rank) {
  TracePlaceFacts facts;
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  facts.program = program_name(std::string(std::istreambuf_iterator<char>(in), {}));
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) == 0) facts.host = host;
  facts.pid = static_cast<std::uint32_t>(::getpid());
  facts.rank = rank;
  return facts;
}

std::string expand_trace_path(std::string_view pattern, const TracePlaceFacts& facts) {
  std::string path;
  bool tells_ranks_apart = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    const char what = pattern[++i];
    if (what == 'p') {
      path += std::to_string(facts.pid);
    } else if (what == 'h') {
      path += sanitized(facts.host);
    } else if (what == 'r') {
      path += std::to_string(facts.rank < 0 ? 0 : facts.rank);
    } else if (what == '%') {
      path += '%';
    } else {
      path += '%';
      path += what;
    }
    tells_ranks_apart = tells_ranks_apart || what == 'p' || what == 'r';
  }
  std::error_code ignored;  // what cannot be asked about is no folder
  if (path.ends_with('/') || fs::is_directory(path, ignored))
    return (fs::path(path) / default_file_name(facts)).string();
  if (facts.rank >= 0 && !tells_ranks_apart) {
    const fs::path whole(path);
    return (whole.parent_path() / whole.stem()).string() + "-rank" + std::to_string(facts.rank) +
           whole.extension().string();
  }
  return path;
}

OpenedTrace open_trace_file(std::string_view pattern, const TracePlaceFacts& facts) {
  if (!pattern.empty()) {
    const std::string path = expand_trace_path(pattern, facts);
    // As it was asked for too: the name of a rank beside a device is no better place.
    for (const std::string& place : {std::string(pattern), path}) {
      if (!is_no_place(place)) continue;
      OpenedTrace refused;
      refused.path = place;
      refused.why = place +
                    " is a device, a pipe or a socket, and a recording needs a file; to record "
                    "nothing, set LEVEE_RECORD=0";
      return refused;
    }
    return create_in(path);
  }

  const std::string name = default_file_name(facts);
  OpenedTrace opened = create_in(fs::path("levee_traces") / name);
  if (opened.file >= 0) {
    // The program may change its folder later.
    std::error_code failed;
    const fs::path absolute = fs::absolute(opened.path, failed);
    if (!failed) opened.path = absolute.string();
    return opened;
  }
  std::error_code failed;
  const fs::path temporary = fs::temp_directory_path(failed);
  OpenedTrace second = create_in((failed ? fs::path("/tmp") : temporary) /
                                 ("levee_traces-" + std::to_string(::getuid())) / name);
  if (second.file >= 0) {
    second.notice = opened.why + "; recording to " + second.path + " instead.";
  } else {
    second.why = opened.why + "; " + second.why;
  }
  return second;
}

}  // namespace levee::record
