// What a snapshot shows, summed up.
#pragma once

#include <levee/snapshot.h>
#include <levee/units.h>

namespace levee::test {

inline Bytes bytes_of(const Snapshot& snapshot, BlockState state) {
  Bytes sum{};
  for (const SnapshotSegment& segment : snapshot.segments) {
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == state) sum += block.bytes;
    }
  }
  return sum;
}

}  // namespace levee::test
