// A device takes an artifact and returns a kernel that it can run on a grid. The CPU and the GPUs implement the same
// two classes, so that specialisation, packing and keys are the same for all.
#pragma once
#include "runtime/artifact/Artifact.h"
#include "runtime/launch/Abi.h"
#include "runtime/support/Status.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>

namespace kiln::device {

/// A logical grid; `y` and `z` default to 1.
struct Grid {
  int32_t x = 1, y = 1, z = 1;
  int64_t count() const { return int64_t(x) * y * z; }
};

/// One launch of a kernel.
struct LaunchRequest {
  Grid grid;
  const void *arguments = nullptr;  ///< packed as the metadata says
  const KilnHooks *hooks = nullptr; ///< null: prints are dropped, checks report nothing
  void *runtime = nullptr;          ///< passed to the hooks through KilnLaunch
  bool sequential = false;          ///< ascending program ids, one at a time
  void *stream = nullptr;           ///< on a GPU: the driver's handle
  bool boundsKnown = false;         ///< the bounds that code with descriptors in place of pointers needs were checked
  /// On the CPU, called on the launching thread about every 50 ms of a long launch; returning true stops it.
  bool (*attend)(void *attendant) = nullptr;
  void *attendant = nullptr;
};

/// The code of one artifact, ready to run. Several threads may launch it at once. The code stays loaded until the last
/// owner is gone.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
  const artifact::Metadata &getMetadata() const { return metadata; }

  /// Runs the grid. The CPU returns when every instance has finished or, after a hook or `attend` has stopped the
  /// launch, when no instance is running. A GPU returns when the launch is queued.
  virtual Status launch(const LaunchRequest &request) = 0;

  /// Launches repeatedly as `request` says and returns the nanoseconds of each launch; on a GPU, those spent in the
  /// driver alone. At least `gap` nanoseconds pass between the starts of two launches.
  virtual Status timeLaunches(const LaunchRequest &request, int64_t gap, llvm::MutableArrayRef<int64_t> times);

  /// The resources that the code uses; null where they are not known (the CPU).
  virtual const struct CodeFigures *getFigures() const { return nullptr; }

protected:
  explicit LoadedKernel(artifact::Metadata metadata) : metadata(std::move(metadata)) {}

  /// Busy-waits until `gap` has passed since `last`; sets `last` to the current time and returns it.
  static int64_t waitForGap(int64_t &last, int64_t gap);

private:
  artifact::Metadata metadata;
};

/// The resources of GPU code, as the driver reports them.
struct CodeFigures {
  int registers = 0;          ///< per thread
  int localBytes = 0;         ///< per thread: spilled registers and arrays that did not fit
  int sharedBytes = 0;        ///< per block, static and dynamic
  int maxThreads = 0;         ///< that a block may have with these registers
  int threads = 0;            ///< per block
  int blocksPerProcessor = 0; ///< resident at once
  int clusters = 0;           ///< resident at once; 0 without clusters
  int binaryVersion = 0;      ///< 90 for sm_90
};

class Device {
public:
  virtual ~Device() = default;
  virtual llvm::StringRef getKind() const = 0;

  /// Loads the artifact's code and checks that it defines the symbol that its metadata names. `label` names the kernel
  /// in messages about launches: its name and source position; if empty, the name alone.
  virtual ErrorOr<std::shared_ptr<LoadedKernel>> load(artifact::Artifact artifact, std::string label = "") = 0;
};

/// The device that runs artifacts for this kind of target ("cpu" or "cuda"; `ordinal` selects the GPU); an error lists
/// the kinds that exist.
ErrorOr<Device *> getDevice(llvm::StringRef kind, int ordinal = 0);

} // namespace kiln::device
