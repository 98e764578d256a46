// A word by which a thread that is busy for long is asked to look up: the code that keeps it busy reads the word now
// and then. Where the thread has been busy with one thing for a while, the word is set about every 50 ms.
//
// Every thread has one, for ever. begin() and end() cost a few nanoseconds: one other thread looks at all words, and
// sleeps while nobody has been busy for a second. After fork() the child has its own, for the thread that forked.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace kiln {

class Safepoint {
public:
  static constexpr auto kPeriod = std::chrono::milliseconds(50);

  /// The calling thread's.
  static Safepoint &get();

  /// Around what may take long; may nest, as where a signal's handler launches a kernel.
  void begin();
  void end();

  /// Not 0: somebody should look up. Whoever does sets it to 0.
  std::atomic<int32_t> word{0};

private:
  friend class SafepointClock;
  std::atomic<uint64_t> serial{0}; ///< of what the thread is busy with; odd while it is
  uint64_t seen = 0;               ///< what `serial` was at the last tick
  unsigned depth = 0;
};

} // namespace kiln
