// Keeps the process from forking while a thread is in code that a child could not continue from: holding a lock,
// filling a table, in the middle of a first-time initialisation. fork() waits for such threads to leave; a thread that
// wants to enter waits for the fork. Use it for work that ends by itself, never around a wait for other threads.
#pragma once

namespace kiln {

class ForkGuard {
public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard &) = delete;
  ForkGuard &operator=(const ForkGuard &) = delete;
};

} // namespace kiln
