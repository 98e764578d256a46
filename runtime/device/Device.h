// A device takes an artifact and gives back a kernel it can run on a grid. The CPU and the GPUs implement the same two
// classes, so that specialisation, packing and keys know one path only.
#pragma once
#include "runtime/artifact/Artifact.h"
#include "runtime/launch/Abi.h"
#include "runtime/support/Status.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>

namespace kiln::device {

/// A virtual grid; `y` and `z` are 1 where not given.
struct Grid {
  int32_t x = 1, y = 1, z = 1;
  int64_t count() const { return int64_t(x) * y * z; }
};

/// How one launch runs.
struct LaunchRequest {
  Grid grid;
  const void *arguments = nullptr;  ///< packed as the metadata says
  const KilnHooks *hooks = nullptr; ///< null: prints go nowhere, checks find nothing
  void *runtime = nullptr;          ///< given to the hooks through KilnLaunch
  bool sequential = false;          ///< ascending program ids, one at a time
  void *stream = nullptr;           ///< of a GPU: the driver's handle
  bool boundsKnown = false;         ///< what code with descriptors in place of pointers holds for has been checked
  /// On the CPU, called on the launching thread about every 50 ms of a launch that lasts; true stops it.
  bool (*attend)(void *attendant) = nullptr;
  void *attendant = nullptr;
};

/// Code of one artifact, ready to run. Safe to launch from several threads at once. The code stays loaded until the
/// last owner is gone.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
  const artifact::Metadata &getMetadata() const { return metadata; }

  /// Runs the grid. The CPU returns when every instance has finished or, after a hook or `attend` stopped the launch,
  /// when no instance runs any more. A GPU returns when the launch is queued.
  virtual Status launch(const LaunchRequest &request) = 0;

  /// Launches as `request` says, one time after the other, and gives the nanoseconds of each: of a GPU, of the driver
  /// alone. Between the beginnings of two launches pass at least `gap` nanoseconds.
  virtual Status timeLaunches(const LaunchRequest &request, int64_t gap, llvm::MutableArrayRef<int64_t> times);

  /// What the code takes of the machine; null where that is not known (the CPU).
  virtual const struct CodeFigures *getFigures() const { return nullptr; }

protected:
  explicit LoadedKernel(artifact::Metadata metadata) : metadata(std::move(metadata)) {}

  /// Waits busily until `gap` has passed since `last`; gives and keeps the time it is then.
  static int64_t waitForGap(int64_t &last, int64_t gap);

private:
  artifact::Metadata metadata;
};

/// Of code for a GPU, as the driver reports it.
struct CodeFigures {
  int registers = 0;          ///< a thread
  int localBytes = 0;         ///< a thread: spilled registers and arrays that did not fit
  int sharedBytes = 0;        ///< a block, static and dynamic
  int maxThreads = 0;         ///< a block may have with these registers
  int threads = 0;            ///< a block has
  int blocksPerProcessor = 0; ///< that are resident at once
  int clusters = 0;           ///< that are resident at once; 0 without clusters
  int binaryVersion = 0;      ///< 90 for sm_90
};

class Device {
public:
  virtual ~Device() = default;
  virtual llvm::StringRef getKind() const = 0;

  /// Loads the artifact's code and checks that it defines the symbol its metadata names. `label` stands for the kernel
  /// in messages about launches: its name and where its source is; the name alone if empty.
  virtual ErrorOr<std::shared_ptr<LoadedKernel>> load(artifact::Artifact artifact, std::string label = "") = 0;
};

/// The device that runs artifacts whose target has this kind ("cpu" or "cuda"; `ordinal` says which GPU); an error
/// names the kinds there are.
ErrorOr<Device *> getDevice(llvm::StringRef kind, int ordinal = 0);

} // namespace kiln::device
