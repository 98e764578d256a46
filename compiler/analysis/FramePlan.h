// Places buffers of known size and live range in one block of memory: the CPU's per-worker frame, or a GPU's shared
// memory. Pure C++: an interval is [begin, end] in any monotone time, both ends included.
#pragma once
#include <cstdint>
#include <vector>

namespace kiln {

struct FrameRequest {
  int64_t bytes = 0;
  int64_t align = 1; ///< a power of two
  int64_t begin = 0, end = 0;
  /// The concurrent strand of work that it belongs to (negative: none). Requests of different strands always count as
  /// live together; otherwise their times decide.
  int strand = -1;
};

/// The two must not share bytes.
bool aliveTogether(const FrameRequest &a, const FrameRequest &b);

struct FramePlan {
  std::vector<int64_t> offsets; ///< per request
  int64_t bytes = 0;            ///< size of the block
};

/// Largest first, each at the lowest offset that no request live at the same time occupies. Two requests share bytes
/// only if they are not live together. Deterministic; requests of equal size keep their order.
FramePlan planFrame(const std::vector<FrameRequest> &requests);

/// The most bytes live at one time: no plan is smaller (alignment aside).
int64_t peakBytes(const std::vector<FrameRequest> &requests);

} // namespace kiln
