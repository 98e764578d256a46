// A device takes an artifact and gives back a kernel it can run on a grid. The CPU is the first; a GPU driver
// implements the same two classes, so that specialisation, packing and keys know one path only.
#pragma once
#include "runtime/artifact/Artifact.h"
#include "runtime/launch/Abi.h"
#include "runtime/support/Status.h"
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
};

/// Code of one artifact, ready to run. Safe to launch from several threads at once. The code stays loaded until the
/// last owner is gone.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
  const artifact::Metadata &getMetadata() const { return metadata; }

  /// Runs the grid. The CPU returns when every instance has finished or, after a hook stopped the launch, when no
  /// instance runs any more.
  virtual Status launch(const LaunchRequest &request) = 0;

protected:
  explicit LoadedKernel(artifact::Metadata metadata) : metadata(std::move(metadata)) {}

private:
  artifact::Metadata metadata;
};

class Device {
public:
  virtual ~Device() = default;
  virtual llvm::StringRef getKind() const = 0;

  /// Loads the artifact's code and checks that it defines the symbol its metadata names.
  virtual ErrorOr<std::shared_ptr<LoadedKernel>> load(artifact::Artifact artifact) = 0;
};

/// The device that runs artifacts whose target has this kind ("cpu"); an error names the kinds there are.
ErrorOr<Device *> getDevice(llvm::StringRef kind);

} // namespace kiln::device
