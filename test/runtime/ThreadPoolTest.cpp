// The pool runs every instance exactly once, from any number of launching threads, and in a forked child.
#include "runtime/support/ThreadPool.h"
#include <atomic>
#include <cstdint>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kiln;

namespace {
struct Counts {
  explicit Counts(int64_t count) : seen(count) {}
  std::vector<std::atomic<int>> seen;
  std::atomic<unsigned> maxWorker{0};

  static bool count(void *context, unsigned worker, int64_t begin, int64_t end) {
    auto &self = *static_cast<Counts *>(context);
    for (int64_t i = begin; i < end; ++i)
      ++self.seen[i];
    unsigned known = self.maxWorker;
    while (worker > known && !self.maxWorker.compare_exchange_weak(known, worker))
      ;
    return true;
  }

  bool allOnce() const {
    for (auto &count : seen)
      if (count != 1)
        return false;
    return true;
  }
};
} // namespace

TEST(ThreadPool, runsEveryInstanceOnce) {
  ThreadPool pool(4);
  for (int64_t count : {0, 1, 2, 3, 63, 64, 65, 100000}) {
    Counts counts(count);
    pool.run(count, Counts::count, &counts);
    EXPECT_TRUE(counts.allOnce()) << count;
    EXPECT_LT(counts.maxWorker, 4u);
  }
}

TEST(ThreadPool, manyThreadsLaunchAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> launchers;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 6; ++thread)
    launchers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        Counts counts(97);
        pool.run(97, Counts::count, &counts);
        wrong += !counts.allOnce();
      }
    });
  for (std::thread &launcher : launchers)
    launcher.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, sequentialRunsAscendOnTheCallingThread) {
  ThreadPool pool(4);
  struct Order {
    std::thread::id caller = std::this_thread::get_id();
    int64_t next = 0;
    bool good = true;
  } order;
  pool.run(
      1000,
      [](void *context, unsigned worker, int64_t begin, int64_t end) {
        auto &order = *static_cast<Order *>(context);
        order.good &= worker == 0 && begin == order.next && std::this_thread::get_id() == order.caller;
        order.next = end;
        return true;
      },
      &order, /*parallel=*/false);
  EXPECT_TRUE(order.good);
  EXPECT_EQ(order.next, 1000);
}

TEST(ThreadPool, falseStopsHandingOutButFinishesLowerChunks) {
  ThreadPool pool(4);
  struct Progress {
    std::atomic<int64_t> highest{-1};
    std::atomic<int64_t> done{0};
  };
  constexpr int64_t count = 1 << 20, stop = 1000;
  for (int repeat = 0; repeat < 20; ++repeat) {
    Progress progress;
    pool.run(
        count,
        [](void *context, unsigned, int64_t begin, int64_t end) {
          auto &progress = *static_cast<Progress *>(context);
          if (begin <= stop && stop < end)
            return false;
          progress.done += end - begin;
          return true;
        },
        &progress);
    EXPECT_LT(progress.done, count - 1);
  }
}

TEST(ThreadPool, aForkedChildHasItsOwnPool) {
  ThreadPool::setSize(2);
  Counts counts(1000);
  ThreadPool::get()->run(1000, Counts::count, &counts);
  ASSERT_TRUE(counts.allOnce());
  pid_t child = fork();
  if (child == 0) {
    Counts again(1000);
    ThreadPool::get()->run(1000, Counts::count, &again);
    _exit(again.allOnce() && ThreadPool::get()->getSize() == 2 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ThreadPool::setSize(0);
}

TEST(ThreadPool, framesAreAlignedReusedAndGrow) {
  void *frame = getThreadFrame(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(frame) % 64, 0u);
  EXPECT_EQ(getThreadFrame(50), frame);
  EXPECT_NE(getThreadFrame(1 << 20), nullptr);
  void *other = nullptr;
  std::thread([&] { other = getThreadFrame(100); }).join();
  EXPECT_NE(other, getThreadFrame(100));
}
