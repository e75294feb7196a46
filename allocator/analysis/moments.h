// Moments: what memory looked like at one instant, from the blocks that were live then: who held
// it, where the free bytes were, and which long-lived blocks kept otherwise empty pages.
//
// Pages are taken as `kPageBytes` pieces of the address space, as the allocator maps them. Pure
// functions. Cost: one scan over all blocks of the run per moment, plus a sort of the live ones.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::analysis {

inline constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;
/// A page counts as pinned when live bytes fill at most this share of it.
inline constexpr double kPinnedShare =
    0.25;  // chosen: what is fuller than that is ordinary partial use

/// Live blocks of a device at `time_ns`, by address.
std::vector<const BlockRecord*> live_blocks(const TraceFacts& facts,
                                            const std::vector<BlockRecord>& blocks,
                                            std::uint32_t device, std::uint64_t time_ns);

/// Numbers of the moment; `live` as from `live_blocks`.
MemoryMoment describe_moment(const TraceFacts& facts, std::uint32_t device, std::uint64_t time_ns,
                             const std::vector<const BlockRecord*>& live);

enum class Origin : std::uint8_t { kPhase, kStack };
/// One line for a stack (a frame a line, innermost first): the innermost frames of the program's
/// own code, and in which function of a library, if any, it was: "train.py:22 step, in
/// torch/nn/functional.py:1777 relu". Where the stack has no frame of the program's own, the
/// innermost ones that it has.
std::string place_text(const std::string& stack);
/// "train/forward", or the place of the stack; where there is none it says
/// why (stacks are not taken of every request; `kNoPythonFrame` of the Python module).
std::string origin_text(const TraceFacts& facts, const BlockRecord& block, Origin origin);

/// Live bytes by origin, largest first, at most `max` and one for all others.
std::vector<Holder> holders(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                            Origin origin, std::size_t max);

/// Blocks on nearly empty pages by origin, most pinned bytes first, at most `max`. A page's free
/// bytes count for its largest block, so that the sum over all pins is what could be given back.
std::vector<Pin> pins(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                      std::uint64_t time_ns, std::size_t max);

/// The same for all pages that live blocks share with free bytes, however full they are, at most
/// `max` and one for all others: the sum is `MemoryMoment::partial_page_bytes`.
std::vector<Pin> between(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                         std::uint64_t time_ns, std::size_t max);

}  // namespace levee::analysis
