// Shadow memory of the race check.
#include "runtime/launch/RaceDetector.h"
#include <algorithm>

using namespace kiln::launch;

static bool conflicts(KilnAccess a, KilnAccess b) {
  if (a == KILN_ACCESS_LOAD && b == KILN_ACCESS_LOAD)
    return false;
  return !(a == KILN_ACCESS_ATOMIC && b == KILN_ACCESS_ATOMIC);
}

std::optional<NotedAccess> RaceDetector::noteGranule(const NotedAccess &access, uintptr_t granule, uint8_t mask) {
  llvm::SmallVector<Record, 2> &records = shadow[granule];
  uint8_t once = 0, twice = 0; // bytes that one or two other programs have accessed in this way already
  Record *own = nullptr;
  for (Record &record : records) {
    if (record.access.program == access.program) {
      if (record.access.kind == access.kind)
        own = &record;
      continue;
    }
    if ((record.mask & mask) && conflicts(record.access.kind, access.kind))
      return record.access;
    if (record.access.kind == access.kind) {
      twice |= once & record.mask;
      once |= record.mask;
    }
  }
  if (own)
    own->mask |= mask;
  else if (mask & ~twice)
    records.push_back({access, mask});
  return std::nullopt;
}

std::optional<NotedAccess> RaceDetector::note(const NotedAccess &access, uintptr_t address, uint32_t bytes) {
  uintptr_t end = address + bytes;
  while (address < end) {
    uintptr_t granule = address / 8;
    unsigned first = address % 8;
    unsigned count = std::min<uintptr_t>(8 - first, end - address);
    if (std::optional<NotedAccess> other = noteGranule(access, granule, uint8_t(((1u << count) - 1) << first)))
      return other;
    address += count;
  }
  return std::nullopt;
}
