#include "allocator/c_api/config_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>

#include <fmt/format.h>

namespace levee::c_api {
namespace {

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool parse_bool(std::string_view text, bool* value) {
  const std::string word = lower(trim(text));
  if (word == "1" || word == "true" || word == "yes" || word == "on") return *value = true, true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return *value = false, true;
  return false;
}

/// A plain decimal number, finite, without sign. std::from_chars for double exists, but takes
/// "inf", "nan" and hexadecimal digits in some modes; those are refused here.
bool parse_number(std::string_view text, double* value) {
  text = trim(text);
  if (text.empty() ||
      (std::isdigit(static_cast<unsigned char>(text.front())) == 0 && text.front() != '.')) {
    return false;
  }
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::general);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number))
    return false;
  *value = number;
  return true;
}

template <typename Enum>
struct Named {
  const char* name;
  Enum value;
};
constexpr std::array<Named<Backing>, 3> kBackings{
    {{"pages", Backing::kPages}, {"segments", Backing::kSegments}, {"auto", Backing::kAuto}}};
constexpr std::array<Named<StitchMode>, 3> kStitchModes{
    {{"alias", StitchMode::kAlias}, {"move", StitchMode::kMove}, {"none", StitchMode::kNone}}};

template <typename Enum, std::size_t N>
bool parse_enum(const std::array<Named<Enum>, N>& names, std::string_view text, Enum* value) {
  const std::string word = lower(trim(text));
  for (const auto& named : names) {
    if (word == named.name) return *value = named.value, true;
  }
  return false;
}

template <typename Enum, std::size_t N>
std::string enum_text(const std::array<Named<Enum>, N>& names, Enum value) {
  for (const auto& named : names) {
    if (named.value == value) return named.name;
  }
  return {};
}

// Physical pages are multiples of what every known GPU maps in (2 MiB); above 1 GiB a page no
// longer serves the purpose of pages.
constexpr Bytes kPageUnit = 2_MiB;
constexpr Bytes kMaxPage = 1_GiB;
// Smaller files could not hold one block of each kind.
constexpr Bytes kMinTraceCap = 1_MiB;
constexpr double kMaxSlack = 1.0;
constexpr double kMaxGuardGrowth = 8.0;
constexpr std::uint32_t kMaxGuardWindows = 1'000'000;

bool parse_page_size(std::string_view text, Bytes* bytes) {
  Bytes parsed;
  if (!parse_bytes(text, &parsed) || parsed.value == 0 || parsed % kPageUnit != 0_B ||
      parsed > kMaxPage) {
    return false;
  }
  *bytes = parsed;
  return true;
}

bool parse_trace_cap(std::string_view text, Bytes* bytes) {
  Bytes parsed;
  if (!parse_bytes(text, &parsed) || (parsed.value != 0 && parsed < kMinTraceCap)) return false;
  *bytes = parsed;
  return true;
}

bool parse_share(std::string_view text, double low, double high, bool low_excluded, double* share) {
  double parsed = 0;
  if (!parse_number(text, &parsed) || parsed < low || parsed > high ||
      (low_excluded && parsed == low)) {
    return false;
  }
  *share = parsed;
  return true;
}

bool parse_count(std::string_view text, std::uint32_t most, std::uint32_t* count) {
  text = trim(text);
  std::uint32_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || end != text.data() + text.size() || parsed == 0 || parsed > most) {
    return false;
  }
  *count = parsed;
  return true;
}

struct Option {
  OptionInfo info;
  bool (*set)(Config&, std::string_view);
  std::string (*text)(const Config&);
};

const char* on_off(bool value) {
  return value ? "1" : "0";
}

// clang-format off
constexpr std::array kOptions{
    Option{{"backing", "LEVEE_BACKING", "pages, segments or auto",
            "mapped pages, or cudaMalloc segments (CUDA IPC needs them); auto: pages where they work"},
           [](Config& c, std::string_view t) { return parse_enum(kBackings, t, &c.backing); },
           [](const Config& c) { return enum_text(kBackings, c.backing); }},
    Option{{"stitch", "LEVEE_STITCH", "alias, move or none",
            "how free pages are brought together when no free run is long enough"},
           [](Config& c, std::string_view t) { return parse_enum(kStitchModes, t, &c.stitch); },
           [](const Config& c) { return enum_text(kStitchModes, c.stitch); }},
    Option{{"page_size", "LEVEE_PAGE_SIZE", "a multiple of 2MiB up to 1GiB",
            "size of a physical page"},
           [](Config& c, std::string_view t) { return parse_page_size(t, &c.page_size); },
           [](const Config& c) { return format_bytes(c.page_size); }},
    Option{{"larger_pages_from", "LEVEE_LARGER_PAGES_FROM", "0 (never), or a size",
            "how much is reserved when new memory begins to be made in pages of twice the size"},
           [](Config& c, std::string_view t) { return parse_bytes(t, &c.larger_pages_from); },
           [](const Config& c) { return format_bytes(c.larger_pages_from); }},
    Option{{"largest_page", "LEVEE_LARGEST_PAGE", "a multiple of 2MiB up to 1GiB",
            "size that pages of new memory have at most"},
           [](Config& c, std::string_view t) { return parse_page_size(t, &c.largest_page); },
           [](const Config& c) { return format_bytes(c.largest_page); }},
    Option{{"slack", "LEVEE_SLACK", "a number from 0 to 1",
            "memory above peak live that may be bought to save stitches, as a share of it"},
           [](Config& c, std::string_view t) { return parse_share(t, 0, kMaxSlack, false, &c.slack); },
           [](const Config& c) { return fmt::format("{}", c.slack); }},
    Option{{"guard_share", "LEVEE_GUARD_SHARE", "a number from 0 to 1",
            "share of time that mapping free pages together may take for long; above it memory grows; 0: no guard"},
           [](Config& c, std::string_view t) { return parse_share(t, 0, 1, false, &c.guard_share); },
           [](const Config& c) { return fmt::format("{}", c.guard_share); }},
    Option{{"guard_growth", "LEVEE_GUARD_GROWTH", "a number from 0 to 8",
            "memory above peak live that the guard may let grow, as a share of it"},
           [](Config& c, std::string_view t) { return parse_share(t, 0, kMaxGuardGrowth, false, &c.guard_growth); },
           [](const Config& c) { return fmt::format("{}", c.guard_growth); }},
    Option{{"guard_windows", "LEVEE_GUARD_WINDOWS", "a whole number from 1 to 1000000",
            "windows, of a step and 0.1 s or more, above guard_share after which the guard goes on"},
           [](Config& c, std::string_view t) { return parse_count(t, kMaxGuardWindows, &c.guard_windows); },
           [](const Config& c) { return fmt::format("{}", c.guard_windows); }},
    Option{{"predict", "LEVEE_PREDICT", "0 or 1",
            "place by predicted lifetime once step marks arrive"},
           [](Config& c, std::string_view t) { return parse_bool(t, &c.predict); },
           [](const Config& c) { return std::string{on_off(c.predict)}; }},
    Option{{"rebase", "LEVEE_REBASE", "0 or 1",
            "allow one mapping of all pages into a new primary range"},
           [](Config& c, std::string_view t) { return parse_bool(t, &c.rebase); },
           [](const Config& c) { return std::string{on_off(c.rebase)}; }},
    Option{{"stream_affinity", "LEVEE_STREAM_AFFINITY", "0 or 1",
            "place what side streams ask for where no other stream has just been"},
           [](Config& c, std::string_view t) { return parse_bool(t, &c.stream_affinity); },
           [](const Config& c) { return std::string{on_off(c.stream_affinity)}; }},
    Option{{"memory_fraction", "LEVEE_MEMORY_FRACTION", "a number above 0 and up to 1",
            "share of the device's memory that this process may reserve"},
           [](Config& c, std::string_view t) { return parse_share(t, 0, 1, true, &c.memory_fraction); },
           [](const Config& c) { return fmt::format("{}", c.memory_fraction); }},
    Option{{"record", "LEVEE_RECORD", "0 or 1", "record what happens into a trace file"},
           [](Config& c, std::string_view t) { return parse_bool(t, &c.record); },
           [](const Config& c) { return std::string{on_off(c.record)}; }},
    Option{{"trace", "LEVEE_TRACE", "a file or folder",
            "where the trace file goes; empty is the default place"},
           [](Config& c, std::string_view t) { c.trace_path = std::string{t}; return true; },
           [](const Config& c) { return c.trace_path; }},
    Option{{"trace_cap", "LEVEE_TRACE_CAP", "0 (no cap), or a size of at least 1MiB",
            "size of the trace file from which on its oldest part is overwritten"},
           [](Config& c, std::string_view t) { return parse_trace_cap(t, &c.trace_cap); },
           [](const Config& c) { return format_bytes(c.trace_cap); }},
    Option{{"stacks", "LEVEE_STACKS", "0 or 1",
            "record the Python stack of every allocation, not of slow ones alone"},
           [](Config& c, std::string_view t) { return parse_bool(t, &c.record_stacks); },
           [](const Config& c) { return std::string{on_off(c.record_stacks)}; }},
};
// clang-format on

constexpr auto kInfos = [] {
  std::array<OptionInfo, kOptions.size()> infos{};
  for (std::size_t i = 0; i < kOptions.size(); ++i) infos[i] = kOptions[i].info;
  return infos;
}();

// Read by the Python package, or by the build; not settings of `Config`.
constexpr std::array<std::string_view, 7> kOtherNames{
    "LEVEE_DISABLE", "LEVEE_DOOR",   "LEVEE_KERNELS", "LEVEE_PHASES",
    "LEVEE_STEPS",   "LEVEE_SIMGPU", "LEVEE_QUIET"};

const Option* find_option(std::string_view name) {
  const auto* it = std::find_if(kOptions.begin(), kOptions.end(),
                                [&](const Option& option) { return name == option.info.name; });
  return it == kOptions.end() ? nullptr : it;
}

/// Levenshtein distance; names are short.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

/// The nearest of `names` if it is near enough to be what was meant, else empty.
template <typename Names>
std::string_view nearest(std::string_view name, const Names& names) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string_view known : names) {
    const std::size_t d = distance(name, known);
    if (d < best_distance) {
      best = known;
      best_distance = d;
    }
  }
  return best;
}

std::string bad_value(const char* name, const OptionInfo& info, std::string_view text) {
  return fmt::format("{}={} cannot be used: give {}.", name, text, info.values);
}

}  // namespace

std::span<const OptionInfo> options() {
  return kInfos;
}

std::string set_option(Config& config, std::string_view name, std::string_view text) {
  const Option* option = find_option(name);
  if (option == nullptr) {
    std::vector<std::string_view> names;
    for (const auto& info : kInfos) names.emplace_back(info.name);
    const std::string_view meant = nearest(name, names);
    if (!meant.empty()) {
      return fmt::format("{} is not an option of levee; did you mean {}?", name, meant);
    }
    return fmt::format("{} is not an option of levee; the options are {}.", name,
                       fmt::join(names, ", "));
  }
  Config changed = config;
  if (!option->set(changed, text)) return bad_value(option->info.name, option->info, text);
  config = changed;
  return {};
}

std::string option_text(const Config& config, std::string_view name) {
  const Option* option = find_option(name);
  return option == nullptr ? std::string{} : option->text(config);
}

Config config_from_environment(std::string* problems) {
  Config config;
  for (const Option& option : kOptions) {
    const char* text = std::getenv(option.info.env);
    if (text == nullptr || (*text == '\0' && option.info.env != std::string_view{"LEVEE_TRACE"}))
      continue;
    if (!option.set(config, text) && problems != nullptr) {
      if (!problems->empty()) *problems += '\n';
      *problems += bad_value(option.info.env, option.info, text);
    }
  }
  return config;
}

std::vector<std::string> unknown_environment_names() {
  std::vector<std::string_view> known(kOtherNames.begin(), kOtherNames.end());
  for (const auto& info : kInfos) known.emplace_back(info.env);
  std::vector<std::string> sentences;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line{*entry};
    const std::string_view name = line.substr(0, line.find('='));
    if (!name.starts_with("LEVEE_") || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    const std::string_view meant = nearest(name, known);
    sentences.push_back(
        meant.empty()
            ? fmt::format("{} is not a variable of levee and is ignored.", name)
            : fmt::format("{} is not a variable of levee and is ignored; did you mean {}?", name,
                          meant));
  }
  std::sort(sentences.begin(), sentences.end());
  return sentences;
}

LaunchRank launch_rank_from_environment() {
  // The first that is set counts: torchrun's, then Open MPI's, then Slurm's.
  const auto number = [](std::initializer_list<const char*> names) -> std::int32_t {
    for (const char* name : names) {
      const char* text = std::getenv(name);
      if (text == nullptr) continue;
      std::int32_t value = -1;
      const char* end = text + std::strlen(text);
      const auto [stop, error] = std::from_chars(text, end, value);
      if (error == std::errc{} && stop == end && value >= 0) return value;
    }
    return -1;
  };
  LaunchRank out{number({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}),
                 number({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}),
                 number({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}),
                 {}};
  if (out.rank < 0) return out;
  for (const char* name :
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT",
        "SLURM_JOB_ID", "SLURM_STEP_ID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    if (!out.launch.empty()) out.launch += ' ';
    out.launch += name;
    out.launch += '=';
    out.launch += std::string_view(text).substr(0, 200);
  }
  return out;
}

bool parse_bytes(std::string_view text, Bytes* bytes) {
  text = trim(text);
  const auto unit_at = std::find_if(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) == 0 && c != '.';
  });
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(unit_at - text.begin()));
  const std::string unit = lower(trim(text.substr(digits.size())));

  double factor = 1;
  if (!unit.empty() && unit != "b") {
    const std::size_t power = std::string_view{"kmgt"}.find(unit.front());
    const std::string_view rest = std::string_view{unit}.substr(1);
    if (power == std::string_view::npos ||
        (!rest.empty() && rest != "ib" && rest != "i" && rest != "b")) {
      return false;
    }
    factor = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  // Whole numbers without a unit keep all 64 bits; a double would round above 2^53.
  if (factor == 1 && digits.find('.') == std::string_view::npos) {
    std::uint64_t whole = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
    if (error != std::errc{} || end != digits.data() + digits.size() || whole > (1ULL << 63))
      return false;
    *bytes = Bytes{whole};
    return true;
  }
  double number = 0;
  if (!parse_number(digits, &number)) return false;
  const double exact = number * factor;
  if (exact > 9.2e18 || exact != std::floor(exact)) return false;
  *bytes = Bytes{static_cast<std::uint64_t>(exact)};
  return true;
}

std::string format_bytes(Bytes bytes) {
  constexpr std::array<std::pair<Bytes, const char*>, 4> kUnits{
      {{1024_GiB, "TiB"}, {1_GiB, "GiB"}, {1_MiB, "MiB"}, {1_KiB, "KiB"}}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes >= unit && bytes % unit == 0_B) return fmt::format("{}{}", bytes / unit, name);
  }
  return fmt::format("{}", bytes.value);
}

}  // namespace levee::c_api
