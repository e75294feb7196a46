#include "allocator/core/mapper.h"

#include "allocator/core/mutants.h"

namespace levee::core {

Mapper::Created Mapper::create(std::span<const Bytes> sizes) {
  Created created;
  created.handles.reserve(sizes.size());
  for (Bytes bytes : sizes) {
    Result<HandleId> handle = device_.create_handle(bytes);
    if (handle.ok()) {
      created.handles.push_back(*handle);
      ++created.made;
      created.made_bytes += bytes;
      continue;
    }
    created.status = handle.status();
    for (std::size_t i = 0; i < created.handles.size(); ++i) {
      if (device_.release_handle(created.handles[i]).ok()) continue;
      created.leftover.push_back(Piece{created.handles[i], sizes[i]});
    }
    if (!mutated(Mutant::kKeepRefusedHandles)) created.handles.clear();
    return created;
  }
  return created;
}

Mapper::Mapped Mapper::map(DeviceAddr base, std::span<const Piece> pieces) {
  Mapped mapped;
  DeviceAddr at = base;
  std::uint32_t done = 0;
  for (const Piece& piece : pieces) {
    mapped.status = device_.map(at, piece.bytes, piece.handle);
    if (!mapped.status.ok() && !mutated(Mutant::kMapOn)) break;
    at = at + piece.bytes;
    ++done;
  }
  if (mapped.status.ok() && !pieces.empty() && !mutated(Mutant::kNoSetAccess)) {
    mapped.status = device_.set_access(base, at - base);
  }
  if (mapped.status.ok()) return mapped;
  if (done == 0 || mutated(Mutant::kNoRollbackUnmap)) return mapped;
  // One call first; piece by piece if the device refuses that.
  if (device_.unmap(base, at - base).ok()) return mapped;
  at = base;
  for (std::uint32_t i = 0; i < done; ++i) {
    if (!device_.unmap(at, pieces[i].bytes).ok()) mapped.leftover.push_back(i);
    at = at + pieces[i].bytes;
  }
  return mapped;
}

}  // namespace levee::core
