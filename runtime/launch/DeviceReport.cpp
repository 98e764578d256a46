// Assembles records into tiles.
#include "runtime/launch/DeviceReport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>
#include <tuple>

using namespace kiln;
using namespace kiln::launch;
using artifact::Site;
using Record = KilnDeviceRecord;

static constexpr uint64_t siteMask = (uint64_t(1) << (KILN_LOG_PROGRAM_SHIFT - KILN_LOG_SITE_SHIFT)) - 1,
                          elementMask = (uint64_t(1) << KILN_LOG_SITE_SHIFT) - 1;

DeviceReport::DeviceReport(const device::CollectedLog &log)
    : metadata(log.metadata), grid(log.grid), monitor(*metadata, grid, {}) {
  readRecords(log);
  if (log.failed == ~uint64_t(0))
    return;
  Failure first;
  first.program = int64_t(log.failed >> KILN_LOG_PROGRAM_SHIFT);
  first.site = int32_t(std::min<uint64_t>(log.failed >> KILN_LOG_SITE_SHIFT & siteMask, metadata->sites.size() - 1));
  first.element = int64_t(log.failed & elementMask);
  failure = first;
}

/// Assembles the bytes of one operand's tile, as the print hook takes them; false if an element is missing.
static bool assemble(const Site::Operand &operand, llvm::ArrayRef<Record> records, std::vector<char> &bytes) {
  unsigned each = operand.pointer ? 8 : artifact::getBytes(operand.type);
  uint64_t count = 1;
  for (int64_t side : operand.shape)
    count *= side;
  bytes.assign(count * each, 0);
  std::vector<bool> present(count, false);
  uint64_t found = 0;
  for (const Record &record : records) {
    if (record.element >= count || present[record.element])
      continue;
    present[record.element] = true;
    ++found;
    std::memcpy(bytes.data() + uint64_t(record.element) * each, &record.bits, each); // little-endian, both sides
  }
  return found == count;
}

void DeviceReport::readRecords(const device::CollectedLog &log) {
  auto key = [](const Record &record) {
    return std::tuple(record.program, record.sequence, record.site, record.operand, record.element);
  };
  auto event = [](const Record &record) { return std::tuple(record.program, record.sequence, record.site); };
  std::vector<Record> records = log.records;
  llvm::sort(records, [&](const Record &a, const Record &b) { return key(a) < key(b); });
  KilnLaunch launch = {};
  launch.hooks = monitor.getHooks();
  launch.runtime = &monitor;
  uint64_t incomplete = 0;
  for (llvm::ArrayRef<Record> rest = records; !rest.empty();) {
    llvm::ArrayRef<Record> group =
        rest.take_while([&](const Record &record) { return event(record) == event(rest.front()); });
    rest = rest.drop_front(group.size());
    const Record &first = group.front();
    if (first.site >= metadata->sites.size())
      continue; // the kernel has overwritten the record
    const Site &site = metadata->sites[first.site];
    std::vector<std::vector<char>> tiles(site.operands.size());
    std::vector<const void *> pointers;
    bool complete = true;
    for (size_t i = 0; i < site.operands.size(); ++i) {
      llvm::ArrayRef<Record> part = group.drop_while([&](const Record &record) { return record.operand < i; })
                                        .take_while([&](const Record &record) { return record.operand == i; });
      complete = assemble(site.operands[i], part, tiles[i]) && complete;
      pointers.push_back(tiles[i].data());
    }
    if (complete)
      launch.hooks->print(&launch, int32_t(first.site), int64_t(first.program), pointers.data());
    else
      ++incomplete;
  }
  output = monitor.takeOutput();
  if (log.dropped || incomplete)
    output += llvm::formatv("(kernel '{0}' printed {1} values more than one launch has room for: {2} of its prints are "
                            "left out here, others altogether)\n",
                            metadata->name, log.dropped, incomplete);
}
