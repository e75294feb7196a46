// Reading the demangled signatures of kernels, and the bytes of their arguments.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace levee::simgpu {

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

inline std::optional<std::uint32_t> number(std::string_view text) {
  text = trimmed(text);
  std::uint32_t value = 0;
  const auto done = std::from_chars(text.data(), text.data() + text.size(), value);
  if (done.ec != std::errc{}) return std::nullopt;
  return value;
}

/// The outermost arguments of the template whose '<' is at `open`.
inline std::vector<std::string_view> template_arguments(std::string_view text, std::size_t open) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t start = open + 1;
  for (std::size_t i = open + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(') ++depth;
    if (depth == 0 && (c == ',' || c == '>')) {
      out.push_back(text.substr(start, i - start));
      start = i + 1;
      if (c == '>') break;
    } else if (c == '>' || c == ')') {
      --depth;
    }
  }
  return out;
}

/// Of an element type; 0 for one that is not known.
inline std::uint32_t bytes_of_type(std::string_view type) {
  if (const std::size_t at = type.find("OpaqueType<"); at != std::string_view::npos)
    return number(type.substr(at + 11)).value_or(0);
  constexpr std::pair<std::string_view, std::uint32_t> kTypes[] = {{"double", 8},
                                                                   {"float", 4},
                                                                   {"long", 8},
                                                                   {"unsigned long", 8},
                                                                   {"int", 4},
                                                                   {"unsigned int", 4},
                                                                   {"short", 2},
                                                                   {"unsigned short", 2},
                                                                   {"signed char", 1},
                                                                   {"unsigned char", 1},
                                                                   {"char", 1},
                                                                   {"bool", 1},
                                                                   {"c10::Half", 2},
                                                                   {"c10::BFloat16", 2},
                                                                   {"c10::complex<float>", 8},
                                                                   {"c10::complex<double>", 16}};
  for (const auto& [name, bytes] : kTypes) {
    if (type == name) return bytes;
  }
  return 0;
}

template <typename T>
T load(const void* from, std::size_t offset) {
  T value{};
  std::memcpy(&value, static_cast<const char*>(from) + offset, sizeof value);
  return value;
}

}  // namespace levee::simgpu
