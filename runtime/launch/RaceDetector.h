// Finds two program instances that access the same byte, at least one of them writing, and not both atomically.
//
// Shadow memory is a hash map from 8-byte granules to short lists of (program, kind, bytes). A list stays short because
// it keeps only accesses that could still prove a race: two different programs per byte and kind suffice, since a third
// can only repeat what one of them shows. Not thread-safe: the monitor runs such launches sequentially, which makes the
// report deterministic.
#pragma once
#include "runtime/launch/Abi.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <unordered_map>

namespace kiln::launch {

struct NotedAccess {
  int64_t program;
  int32_t site;
  KilnAccess kind;
};

class RaceDetector {
public:
  /// Records an access; returns an earlier one that it races with.
  std::optional<NotedAccess> note(const NotedAccess &access, uintptr_t address, uint32_t bytes);

private:
  struct Record {
    NotedAccess access;
    uint8_t mask; ///< the granule's bytes that are accessed
  };
  std::optional<NotedAccess> noteGranule(const NotedAccess &access, uintptr_t granule, uint8_t mask);

  std::unordered_map<uintptr_t, llvm::SmallVector<Record, 2>> shadow;
};

} // namespace kiln::launch
