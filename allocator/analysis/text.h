// Numbers as people read them: bytes in binary units, durations, counts and shares. One place, so
// that a figure reads the same in the terminal, in an error text and in a view.
//
// Promises: locale-independent; the same input gives the same text; three significant digits from 1
// KiB and from 1 us up.
#pragma once

#include <cstdint>
#include <string>

namespace levee::analysis {

/// "0 B", "512 B", "1.50 KiB", "41.2 GiB".
std::string bytes_text(std::uint64_t bytes);
/// "0 s", "850 ns", "12.3 us", "4.10 ms", "1.25 s", "3 min 20 s", "2 h 05 min".
std::string duration_text(std::uint64_t duration_ns);
/// "999", "12,345".
std::string count_text(std::uint64_t count);
/// "1 emergency", "3 emergencies": `plural` is written out since English has no rule that a program
/// should guess.
std::string counted(std::uint64_t count, const char* singular, const char* plural);
/// part / whole as "12.3 %"; "-" if whole is 0.
std::string share_text(std::uint64_t part, std::uint64_t whole);
/// reserved / allocated as "1.083"; "-" if `allocated` is 0.
std::string ratio_text(std::uint64_t reserved, std::uint64_t allocated);

}  // namespace levee::analysis
