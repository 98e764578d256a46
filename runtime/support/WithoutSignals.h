// Threads started while one of these is alive take no signals: those are for the program's own threads.
#pragma once
#include <csignal>
#include <pthread.h>

namespace kiln {

class WithoutSignals {
public:
  WithoutSignals() {
    sigset_t every;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  WithoutSignals(const WithoutSignals &) = delete;

private:
  sigset_t before;
};

} // namespace kiln
