#include "tools/simgpu/core/settings.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tools/simgpu/core/faults.h"

namespace levee::simgpu {
namespace {

// Published figures (vendors' data sheets and the CUDA programming guide's table of compute
// capabilities). Longer keys stand before shorter ones that they contain.
constexpr std::array kCards = {
    CardModel{"A100", 8, 0, 108, 2048, 164, 163, 40, 1410000, 1593000, 5120, 2039, 312, 80},
    CardModel{"A10", 8, 6, 72, 1536, 100, 99, 6, 1695000, 6251000, 384, 600, 125, 24},
    CardModel{"3090", 8, 6, 82, 1536, 100, 99, 6, 1695000, 9751000, 384, 936, 71, 24},
    CardModel{"4090", 8, 9, 128, 1536, 100, 99, 72, 2520000, 10501000, 384, 1008, 165, 24},
    CardModel{"L40", 8, 9, 142, 1536, 100, 99, 96, 2520000, 9001000, 384, 864, 362, 48},
    CardModel{"L4", 8, 9, 58, 1536, 100, 99, 48, 2040000, 6251000, 192, 300, 121, 24},
    CardModel{"T4", 7, 5, 40, 1024, 64, 64, 4, 1590000, 5001000, 256, 320, 65, 16},
    CardModel{"H200", 9, 0, 132, 2048, 228, 227, 50, 1980000, 3201000, 6144, 4800, 989, 141},
    CardModel{"H100", 9, 0, 132, 2048, 228, 227, 50, 1980000, 2619000, 5120, 3350, 989, 80},
    CardModel{"B200", 10, 0, 148, 2048, 228, 227, 126, 1965000, 3996000, 8192, 8000, 2250, 180},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

const CardModel& card_named(std::string_view name) {
  const std::string wanted = lower(name);
  for (const CardModel& card : kCards) {
    if (wanted.find(lower(card.key)) != std::string::npos) return card;
  }
  return kCards.front();
}

std::string_view next_part(std::string_view* rest, char separator) {
  const std::size_t end = rest->find(separator);
  std::string_view part = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
  while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
  return part;
}

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

/// Fills the settings of the card from "24GiB,name=...". Returns a sentence, or "".
std::string parse_gpu(std::string_view text, Settings* out) {
  bool has_memory = false;
  std::optional<std::pair<int, int>> capability;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = next_part(&rest, ',');
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    const std::string_view key = equals == std::string_view::npos ? "" : part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? part : part.substr(equals + 1);
    if (key.empty() || key == "memory") {
      const auto size = parse_size(value);
      if (!size || *size < 64_MiB || *size > 4096_GiB) {
        return quoted(value) +
               " is not a card's memory; give a size from 64MiB to 4096GiB, like 24GiB.";
      }
      out->memory = *size;
      has_memory = true;
    } else if (key == "used") {
      const auto size = parse_size(value);
      if (!size) return quoted(value) + " is not a size; write used=3GiB.";
      out->used_by_others = *size;
    } else if (key == "context") {
      const auto size = parse_size(value);
      if (!size) return quoted(value) + " is not a size; write context=400MiB.";
      out->context = *size;
    } else if (key == "count") {
      int count = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
      if (error != std::errc{} || end != value.data() + value.size() || count < 1 || count > 16) {
        return quoted(value) + " is not a number of cards; count= takes 1 to 16.";
      }
      out->count = count;
    } else if (key == "name") {
      if (value.empty() || value.size() > 200) return "name= takes 1 to 200 characters.";
      out->name = value;
    } else if (key == "cc") {
      int major = 0;
      int minor = 0;
      const char* last = value.data() + value.size();
      const auto first = std::from_chars(value.data(), last, major);
      const bool has_minor = first.ptr != last && *first.ptr == '.';
      const auto second = has_minor ? std::from_chars(first.ptr + 1, last, minor) : first;
      if (first.ec != std::errc{} || second.ec != std::errc{} || !has_minor || second.ptr != last) {
        return quoted(value) + " is not a compute capability; write cc=8.0.";
      }
      capability = {major, minor};
    } else {
      return quoted(part) +
             " is not known; a card is described by a size and name=, count=, used=, cc=, "
             "context=.";
    }
  }
  out->card = card_named(out->name);
  if (capability) {
    out->card.compute_major = capability->first;
    out->card.compute_minor = capability->second;
  }
  if (!has_memory) out->memory = 1_GiB * static_cast<std::uint64_t>(out->card.memory_gib);
  if (out->used_by_others + out->context > out->memory) {
    return "used= and context= are more than the card's memory.";
  }
  return "";
}

std::string parse_named(std::string_view text, Settings* out) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = next_part(&rest, ',');
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    const auto value =
        equals == std::string_view::npos ? std::nullopt : parse_size(part.substr(equals + 1));
    if (!value) return quoted(part) + " is not a setting; write name=number or name=64MiB.";
    const std::string_view name = part.substr(0, equals);
    if (std::find(kNamedSettings.begin(), kNamedSettings.end(), name) == kNamedSettings.end()) {
      std::string known;
      for (const std::string_view one : kNamedSettings) {
        known += (known.empty() ? "" : ", ") + std::string(one);
      }
      return quoted(name) + " is not the name of a setting; there are " + known + ".";
    }
    out->named.insert_or_assign(std::string(name), value->value);
  }
  return "";
}

std::string parse_judge(std::string_view text, Settings* out) {
  if (text == "count") {
    out->judge = device::sim::JudgeMode::kCount;
  } else if (text == "abort") {
    out->judge = device::sim::JudgeMode::kAbort;
  } else if (text == "off") {
    out->judge = device::sim::JudgeMode::kOff;
  } else {
    return quoted(text) + " is not known; choose count, abort or off.";
  }
  return "";
}

SettingsText text_from_environment() {
  SettingsText text;
  text.gpu = std::getenv("SIMGPU_GPU");
  text.stats = std::getenv("SIMGPU_STATS");
  text.judge = std::getenv("SIMGPU_JUDGE");
  text.backing = std::getenv("SIMGPU_BACKING");
  text.faults = std::getenv("SIMGPU_FAULTS");
  text.trace = std::getenv("SIMGPU_TRACE");
  text.set = std::getenv("SIMGPU_SET");
  text.quiet = std::getenv("SIMGPU_QUIET");
  return text;
}

std::string parse_backing(std::string_view text, Settings* out) {
  if (text == "full") {
    out->backing_limit = std::nullopt;
  } else if (text == "off") {
    out->backing_limit = 0_B;
  } else if (const auto size = parse_size(text)) {
    out->backing_limit = *size;
  } else {
    return quoted(text) + " is not known; give a size, full or off.";
  }
  return "";
}

}  // namespace

std::optional<Bytes> parse_size(std::string_view text) {
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc{} || !(number >= 0) || !std::isfinite(number)) return std::nullopt;
  const std::string unit = lower(std::string_view(end, static_cast<std::size_t>(last - end)));
  double factor = 0;
  if (unit.empty() || unit == "b") factor = 1;
  if (unit == "k" || unit == "kb" || unit == "kib") factor = 1024.0;
  if (unit == "m" || unit == "mb" || unit == "mib") factor = 1024.0 * 1024;
  if (unit == "g" || unit == "gb" || unit == "gib") factor = 1024.0 * 1024 * 1024;
  if (unit == "t" || unit == "tb" || unit == "tib") factor = 1024.0 * 1024 * 1024 * 1024;
  const double bytes = number * factor;
  if (factor == 0 || bytes > 1e18) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(std::llround(bytes))};
}

Settings parse_settings(const SettingsText& text, std::string* problem) {
  Settings out;
  problem->clear();
  const auto apply = [&](const char* variable, const char* value, auto parse) {
    if (value == nullptr || !problem->empty()) return;
    const std::string sentence = parse(std::string_view(value), &out);
    if (!sentence.empty()) *problem = std::string(variable) + ": " + sentence;
  };
  apply("SIMGPU_GPU", text.gpu != nullptr ? text.gpu : "", parse_gpu);
  apply("SIMGPU_JUDGE", text.judge, parse_judge);
  apply("SIMGPU_BACKING", text.backing, parse_backing);
  apply("SIMGPU_SET", text.set, parse_named);
  const auto switched_on = [](const char* value) {
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  };
  if (switched_on(text.stats)) out.stats = text.stats;
  if (switched_on(text.trace)) out.trace = text.trace;
  if (text.faults != nullptr) out.faults = text.faults;
  out.quiet = switched_on(text.quiet);

  // The name is what people see in every report of other tools: it must say what this is.
  if (out.name.empty()) out.name = std::string(out.card.key) + "-like";
  if (lower(out.name).find("simgpu") == std::string::npos) out.name = "simgpu " + out.name;
  return out;
}

std::vector<int> parse_visible(const char* text, int count) {
  std::vector<int> out;
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = next_part(&rest, ',');
    int number = -1;
    if (part.starts_with("GPU-")) {
      // The last two digits of our identifiers are the card's number; a prefix that is unique would
      // do for CUDA, too.
      const std::string_view digits = part.substr(part.size() < 2 ? 0 : part.size() - 2);
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    } else {
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
      if (error != std::errc{} || end != part.data() + part.size()) number = -1;
    }
    // As CUDA does: the first one that does not exist ends the list.
    if (number < 0 || number >= count) break;
    if (std::find(out.begin(), out.end(), number) != out.end()) return {};
    out.push_back(number);
  }
  return out;
}

const std::vector<int>& visible_devices() {
  static const std::vector<int> visible =
      parse_visible(std::getenv("CUDA_VISIBLE_DEVICES"), settings().count);
  return visible;
}

std::string settings_problem() {
  std::string problem;
  const Settings parsed = parse_settings(text_from_environment(), &problem);
  if (!problem.empty()) return problem;
  parse_faults(parsed.faults, &problem);
  return problem.empty() ? problem : "SIMGPU_FAULTS: " + problem;
}

const Settings& settings() {
  static const Settings value = [] {
    std::string problem;
    Settings parsed = parse_settings(text_from_environment(), &problem);
    if (!problem.empty()) {
      std::fprintf(stderr, "simgpu: %s\n", problem.c_str());
      _exit(2);
    }
    return parsed;
  }();
  return value;
}

}  // namespace levee::simgpu
