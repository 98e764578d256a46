// A word that asks a thread in a long computation to check in: the code that keeps it busy reads the word now and then.
// Once the thread has been busy with the same thing for a while, the word is set about every 50 ms.
//
// Every thread has one for its lifetime. begin() and end() cost a few nanoseconds: one other thread scans all words,
// and sleeps once no thread has been busy for a second. After fork() the child has its own, for the thread that forked.
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

  /// Enclose work that may take long; may nest, as when a signal handler launches a kernel.
  void begin();
  void end();

  /// Not 0: the thread should check in. The code that checks in sets it to 0.
  std::atomic<int32_t> word{0};

private:
  friend class SafepointClock;
  std::atomic<uint64_t> serial{0}; ///< identifies the current work; odd while the thread is busy
  uint64_t seen = 0;               ///< the value of `serial` at the last tick
  unsigned depth = 0;
};

} // namespace kiln
