// Interprets a GPU's log: text as the CPU target prints it, and the failure as a monitor describes it. There is one
// formatter for all targets: the records are assembled into tiles and passed to the hooks that compiled CPU code calls.
#pragma once
#include "runtime/device/CudaLog.h"
#include "runtime/launch/Monitor.h"

namespace kiln::launch {

class DeviceReport {
public:
  explicit DeviceReport(const device::CollectedLog &log);

  /// The printed lines, in program order.
  std::string takeOutput() { return std::move(output); }
  const std::optional<Failure> &getFailure() const { return failure; }
  const Monitor &getMonitor() const { return monitor; }
  const artifact::Metadata &getMetadata() const { return *metadata; }
  device::Grid getGrid() const { return grid; }

private:
  void readRecords(const device::CollectedLog &log);

  std::shared_ptr<const artifact::Metadata> metadata;
  device::Grid grid;
  Monitor monitor;
  std::string output;
  std::optional<Failure> failure;
};

} // namespace kiln::launch
