// The description of a launch by FakeCuda.cpp. test/emulator/plugin.py and test/python/runtime/fake_cuda.py declare it
// too.
#pragma once
#include <cstddef>

struct FakeLaunch {
  const char *name;
  unsigned grid[3], block[3], cluster, sharedBytes;
  int programmatic;
  const void *arguments;
  size_t bytes;
  void *stream;
  int device;
  const char *image; ///< what the function's module was loaded from
};
