// The frame planner: buffers that are live at once do not overlap, alignment holds, memory is reused.
#include "compiler/analysis/FramePlan.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace kiln;

static bool meet(const FrameRequest &a, const FrameRequest &b) { return a.begin <= b.end && b.begin <= a.end; }

static void expectValid(const std::vector<FrameRequest> &requests, const FramePlan &plan) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  int64_t end = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_EQ(plan.offsets[i] % requests[i].align, 0);
    end = std::max(end, plan.offsets[i] + requests[i].bytes);
    for (size_t j = 0; j < i; ++j)
      if (meet(requests[i], requests[j]))
        EXPECT_TRUE(plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                    plan.offsets[j] + requests[j].bytes <= plan.offsets[i])
            << i << " and " << j << " overlap";
  }
  EXPECT_EQ(plan.bytes, end);
}

TEST(FramePlan, EmptyFrameHasNoBytes) { EXPECT_EQ(planFrame({}).bytes, 0); }

TEST(FramePlan, BuffersOfDifferentTimesShareBytes) {
  FramePlan plan = planFrame({{64, 64, 0, 1}, {64, 64, 2, 3}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 64);
}

TEST(FramePlan, BothEndsOfAnIntervalCount) {
  FramePlan plan = planFrame({{64, 64, 0, 2}, {64, 64, 2, 3}});
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 128);
}

TEST(FramePlan, StrandsRunAtOnce) {
  // The two requests of the first strand share memory; the other strand's is separate from both, whatever its times.
  std::vector<FrameRequest> requests{{64, 16, 0, 1, 0}, {64, 16, 2, 3, 0}, {64, 16, 5, 6, 1}};
  FramePlan plan = planFrame(requests);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_NE(plan.offsets[0], plan.offsets[2]);
  EXPECT_EQ(plan.bytes, 128);
  // A request of no strand is compared by time with the requests of every strand.
  requests.push_back({64, 16, 7, 8});
  plan = planFrame(requests);
  EXPECT_EQ(plan.bytes, 128);
  requests.back().begin = 6;
  plan = planFrame(requests);
  EXPECT_NE(plan.offsets[3], plan.offsets[2]);
  EXPECT_EQ(plan.bytes, 128);
}

TEST(FramePlan, SmallBufferGoesIntoAGap) {
  // 0 and 1 live all the time, 2 and 3 one after the other: 3 takes the place of 2.
  std::vector<FrameRequest> requests{{128, 64, 0, 9}, {128, 64, 0, 9}, {64, 64, 0, 4}, {32, 64, 5, 9}};
  FramePlan plan = planFrame(requests);
  expectValid(requests, plan);
  EXPECT_EQ(plan.offsets[3], plan.offsets[2]);
  EXPECT_EQ(plan.bytes, 320);
}

TEST(FramePlan, OddSizesKeepAlignment) {
  std::vector<FrameRequest> requests{{5, 64, 0, 1}, {7, 64, 0, 1}, {1, 64, 0, 1}};
  expectValid(requests, planFrame(requests));
}

TEST(FramePlan, PeakCountsBuffersLiveAtOnce) {
  EXPECT_EQ(peakBytes({{10, 1, 0, 5}, {20, 1, 5, 6}, {100, 1, 7, 8}}), 100);
  EXPECT_EQ(peakBytes({{10, 1, 0, 5}, {20, 1, 5, 6}}), 30);
}

TEST(FramePlan, RandomPlansAreValidAndClose) {
  std::mt19937 random(7);
  auto number = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<FrameRequest> requests;
    for (int64_t count = number(1, 40); count > 0; --count) {
      int64_t begin = number(0, 30);
      requests.push_back({number(0, 20) * 64, int64_t(1) << number(0, 6), begin, begin + number(0, 12)});
    }
    FramePlan plan = planFrame(requests);
    expectValid(requests, plan);
    EXPECT_GE(plan.bytes, peakBytes(requests));
    EXPECT_LE(plan.bytes, 2 * peakBytes(requests) + 64);
    EXPECT_EQ(plan.offsets, planFrame(requests).offsets);
  }
}
