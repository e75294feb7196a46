// The door to what happens when nothing that is held fits: growth, stitching, segments, and then
// the ladder.
//
// Serves one request at a time, under the growth mutex, as a `Miss` (miss.h): memory that live
// bytes themselves need is created; else wholly free pages are stitched together (page_miss.h says
// which is chosen when). If none of it can serve within the limits, that is an emergency, and the
// recovery ladder is climbed (ladder.cc). Promises: P1: a request that fits the memory there is, is
// served; P4: any call to the device may fail, and nothing is lost when it does.
#pragma once

#include <levee/allocator.h>

#include "allocator/core/page_work.h"
#include "allocator/core/placer.h"
#include "allocator/core/state.h"

namespace levee::core {

class SlowPath {
 public:
  SlowPath(State& state, Placer& placer, PageWork& pages)
      : state_(state), placer_(placer), pages_(pages) {}

  /// Pre: no lock held. `report` is filled when the answer is kOutOfMemory.
  Result<Block> serve(const Request& request, OomReport* report);

 private:
  State& state_;
  Placer& placer_;
  PageWork& pages_;
};

}  // namespace levee::core
