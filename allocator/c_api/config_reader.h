// Settings as text: the one table that gives every setting of `Config` its name, its environment
// variable, its allowed values and its parser.
//
// Owns: that table, and all reading of the environment (`getenv` stands in config_reader.cc and
// nowhere else). Promises: any text is safe; a value that cannot be used changes nothing and gives
// one sentence that says what would be accepted; a name that is unknown gives one sentence with the
// nearest known one. `option_text` gives back what `set_option` would accept. Thread safety: const
// data; reading the environment is as safe as getenv. Cold.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <levee/config.h>

namespace levee::c_api {

struct OptionInfo {
  const char* name;    ///< as in levee.install(name=...)
  const char* env;     ///< as in the environment
  const char* values;  ///< what may be given, for people
  const char* help;    ///< what it does, a phrase
};

/// Every setting, in the order of `Config`.
std::span<const OptionInfo> options();

/// Sets one option from text. Empty on success; else one sentence, and `config` is unchanged.
std::string set_option(Config& config, std::string_view name, std::string_view text);
/// The current value as text that `set_option` takes. Empty for an unknown name.
std::string option_text(const Config& config, std::string_view name);

/// The defaults with LEVEE_* variables over them. `problems` (may be null) gets one sentence a line
/// for each value that cannot be used; that one is then ignored.
Config config_from_environment(std::string* problems);

/// Variables in the environment that start with LEVEE_ and mean nothing to levee: misspelt, most
/// likely. One sentence each.
std::vector<std::string> unknown_environment_names();

/// Where this process stands among those that a launcher (torchrun, mpirun, srun) started; -1 = not
/// said.
struct LaunchRank {
  std::int32_t rank = -1;
  std::int32_t local_rank = -1;
  std::int32_t world_size = -1;
  /// Alike in all ranks of one launch, and most likely in no other launch: the launcher's own
  /// number of the job and its restart, and where the ranks meet. Empty without a launcher.
  std::string launch;
};
LaunchRank launch_rank_from_environment();

/// A number of bytes as people write it: "2097152", "2MiB", "1.5 GiB", "2M" (= MiB), "2MB" (10^6).
/// False if it is none, or above 2^63.
bool parse_bytes(std::string_view text, Bytes* bytes);
/// "2MiB" where a unit divides it, else plain digits: reads back as the same number.
std::string format_bytes(Bytes bytes);

}  // namespace levee::c_api
