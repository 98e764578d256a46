// First fit in order of decreasing size. For the few dozen buffers of a kernel the quadratic search does not matter.
#include "compiler/analysis/FramePlan.h"
#include <algorithm>
#include <map>
#include <numeric>

using namespace kiln;

static int64_t alignTo(int64_t value, int64_t align) { return (value + align - 1) / align * align; }

bool kiln::aliveTogether(const FrameRequest &a, const FrameRequest &b) {
  if (a.strand >= 0 && b.strand >= 0 && a.strand != b.strand)
    return true;
  return a.begin <= b.end && b.begin <= a.end;
}

FramePlan kiln::planFrame(const std::vector<FrameRequest> &requests) {
  FramePlan plan;
  plan.offsets.resize(requests.size());
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(-requests[a].bytes, a) < std::make_pair(-requests[b].bytes, b);
  });
  std::vector<size_t> placed;
  for (size_t index : order) {
    const FrameRequest &request = requests[index];
    // Byte ranges of requests that are live at the same time, by offset.
    std::vector<std::pair<int64_t, int64_t>> occupied;
    for (size_t other : placed)
      if (aliveTogether(requests[other], request) && requests[other].bytes > 0)
        occupied.push_back({plan.offsets[other], plan.offsets[other] + requests[other].bytes});
    std::sort(occupied.begin(), occupied.end());
    int64_t offset = 0;
    for (auto [begin, end] : occupied) {
      if (alignTo(offset, request.align) + request.bytes <= begin)
        break;
      offset = std::max(offset, end);
    }
    plan.offsets[index] = alignTo(offset, request.align);
    plan.bytes = std::max(plan.bytes, plan.offsets[index] + request.bytes);
    placed.push_back(index);
  }
  return plan;
}

int64_t kiln::peakBytes(const std::vector<FrameRequest> &requests) {
  std::map<int64_t, int64_t> change;
  for (const FrameRequest &request : requests) {
    change[request.begin] += request.bytes;
    change[request.end + 1] -= request.bytes;
  }
  int64_t alive = 0, peak = 0;
  for (auto [time, delta] : change)
    peak = std::max(peak, alive += delta);
  return peak;
}
