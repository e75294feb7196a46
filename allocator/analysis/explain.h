// Words for emergencies, storms and a whole run: what happened, why, what it cost, who paid, what
// to do.
//
// Promises: every emergency gets a cause, each rung with bytes and duration, the place that paid
// (step, phase, thread), and one piece of advice that its numbers support; the texts are the same
// in the terminal, in views and in exports. Pure.
#pragma once

#include <string>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::analysis {

struct EmergencyText {
  std::string headline;            ///< one sentence: when, where, how much, how long
  std::string cause;               ///< one sentence
  std::vector<std::string> rungs;  ///< one sentence a rung
  std::string paid;                ///< who paid
  std::string advice;
};

/// Whether the emergency ended in a refusal for where the free bytes lay: then, and only then, its
/// advice names the list `DeviceFacts::between`.
bool is_refused_by_fragmentation(const TraceFacts& facts, const Emergency& emergency);

EmergencyText explain(const TraceFacts& facts, const Emergency& emergency);
/// All of it as paragraphs, for a terminal or a file.
std::string emergency_text(const TraceFacts& facts, const Emergency& emergency);
/// One sentence: how many, what was given back and taken again, what it cost.
std::string storm_text(const TraceFacts& facts, const Storm& storm);

/// Whether any device memory was used, or asked for in vain, in what was recorded. There is nothing
/// to advise otherwise.
bool has_memory(const TraceFacts& facts);
/// What a reader of the report should do, most useful first; empty only without memory. The last
/// resort is to say that all is well.
std::vector<std::string> advice(const TraceFacts& facts);

}  // namespace levee::analysis
