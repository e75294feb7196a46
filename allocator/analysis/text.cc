#include "allocator/analysis/text.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace levee::analysis {
namespace {

// Three significant digits, without a trailing point.
std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  // 1023.95 and above would print as 1024.
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return three_digits(value) + " " + kUnits[unit];
}

std::string duration_text(std::uint64_t duration_ns) {
  if (duration_ns == 0) return "0 s";
  if (duration_ns < 1'000) return fmt::format("{} ns", duration_ns);
  const double value = static_cast<double>(duration_ns);
  if (value < 999.5e3) return three_digits(value / 1e3) + " us";
  if (value < 999.5e6) return three_digits(value / 1e6) + " ms";
  const std::uint64_t seconds = (duration_ns + 500'000'000) / 1'000'000'000;
  if (seconds < 120) return three_digits(value / 1e9) + " s";
  if (seconds < 7200) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds % 3600 / 60);
}

std::string count_text(std::uint64_t count) {
  const std::string digits = fmt::format("{}", count);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

std::string counted(std::uint64_t count, const char* singular, const char* plural) {
  return count_text(count) + " " + (count == 1 ? singular : plural);
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part != 0 && percent < 0.01) return "<0.01 %";
  return fmt::format("{:.{}f} %", percent, percent < 10 ? 2 : 1);
}

std::string ratio_text(std::uint64_t reserved, std::uint64_t allocated) {
  if (allocated == 0) return "-";
  return fmt::format("{:.3f}", static_cast<double>(reserved) / static_cast<double>(allocated));
}

}  // namespace levee::analysis
