// Finds two program instances that touch one byte, one of them writing, not both with an atomic.
//
// Shadow memory is a hash map from 8-byte granules to short lists of (program, kind, bytes). A list stays short because
// only accesses that could still prove a race are kept: two different programs per byte and kind suffice, since a third
// can only repeat what one of them shows. For one thread at a time: the monitor runs such launches sequentially, which
// makes the report deterministic.
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
  /// Notes an access; returns an earlier one that it races with.
  std::optional<NotedAccess> note(const NotedAccess &access, uintptr_t address, uint32_t bytes);

private:
  struct Record {
    NotedAccess access;
    uint8_t mask; ///< bytes of the granule
  };
  std::optional<NotedAccess> noteGranule(const NotedAccess &access, uintptr_t granule, uint8_t mask);

  std::unordered_map<uintptr_t, llvm::SmallVector<Record, 2>> shadow;
};

} // namespace kiln::launch
