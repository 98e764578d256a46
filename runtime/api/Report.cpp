// See Report.h.
#include "runtime/api/Report.h"
#include "runtime/launch/DeviceReport.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstdio>
#include <mutex>

using namespace kiln;
using namespace kiln::api;

static void show(const std::string &output) {
  if (output.empty())
    return;
  fwrite(output.data(), 1, output.size(), stdout);
  fflush(stdout);
}

static Status describe(const artifact::Metadata &metadata, const launch::Monitor &monitor,
                       const launch::Failure &failure) {
  return {StatusCode::AssertionFailed,
          llvm::formatv("kernel '{0}': {1}", metadata.name, monitor.describe(failure)).str()};
}

Status kiln::api::takeReports() {
  if (!device::hasCollectedLogs())
    return {};
  // One caller at a time, so that the lines of two launches do not mix.
  static auto *mutex = new std::mutex;
  std::lock_guard<std::mutex> lock(*mutex);
  Status first;
  for (const device::CollectedLog &log : device::takeCollectedLogs()) {
    launch::DeviceReport report(log);
    show(report.takeOutput());
    if (report.getFailure() && first.ok())
      first = describe(report.getMetadata(), report.getMonitor(), *report.getFailure());
  }
  return first;
}

Status kiln::api::launchObserved(device::LoadedKernel &kernel, device::LaunchRequest request) {
  const artifact::Metadata &metadata = kernel.getMetadata();
  launch::Monitor monitor(metadata, request.grid, {});
  request.hooks = monitor.getHooks();
  request.runtime = &monitor;
  Status status = kernel.launch(request);
  show(monitor.takeOutput());
  if (monitor.getFailure())
    return describe(metadata, monitor, *monitor.getFailure());
  return status;
}
