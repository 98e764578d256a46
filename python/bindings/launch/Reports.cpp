// Failures and prints on their way to Python.
#include "python/bindings/launch/Reports.h"
#include "python/bindings/Interpreter.h"
#include "python/bindings/PythonSide.h"
#include "runtime/device/CudaDevice.h"
#include "runtime/launch/DeviceReport.h"

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

py::dict kiln::python::describeFailure(const launch::Monitor &monitor, const launch::Failure &failure,
                                       const artifact::Metadata &metadata, device::Grid grid) {
  auto frames = [&](int32_t site) {
    py::list list;
    for (const artifact::SourceFrame &frame : metadata.sites[site].location)
      list.append(py::make_tuple(frame.file, frame.line, frame.column, frame.function));
    return list;
  };
  auto program = [&](int64_t id) { return py::make_tuple(id % grid.x, id / grid.x % grid.y, id / grid.x / grid.y); };
  static constexpr const char *kinds[] = {"assert", "bounds", "read-only", "race", "bounds", "lanes"};
  const artifact::Site &site = metadata.sites[failure.site];
  py::dict result;
  result["kind"] = kinds[unsigned(failure.kind)];
  result["message"] = monitor.getMessage(failure);
  result["detail"] = monitor.getDetail(failure);
  result["program"] = program(failure.program);
  result["frames"] = frames(failure.site);
  result["element"] = failure.element;
  py::list shape;
  if (!site.operands.empty())
    for (int64_t side : site.operands.front().shape)
      shape.append(side);
  result["shape"] = py::tuple(shape);
  result["address"] = failure.address;
  if (failure.other) {
    result["other_frames"] = frames(failure.other->site);
    result["other_program"] = program(failure.other->program);
  }
  return result;
}

//===-- GPUs -----------------------------------------------------------------------------------------------------===//

namespace {
/// A failure that waits for the next launch or synchronisation.
struct Pending {
  std::string kernel;
  py::dict what;
};

/// Under the interpreter lock; never destroyed.
std::vector<Pending> &getPending() {
  static auto *pending = new std::vector<Pending>;
  return *pending;
}

int showSoon(void *) {
  try {
    showReports();
  } catch (py::error_already_set &error) {
    error.restore(); // of sys.stdout
    return -1;
  }
  return 0;
}
} // namespace

void kiln::python::showText(const std::string &text) { py::print(text, py::arg("end") = "", py::arg("flush") = true); }

void kiln::python::showReports() {
  if (!device::hasCollectedLogs())
    return;
  for (const device::CollectedLog &log : device::takeCollectedLogs()) {
    launch::DeviceReport report(log);
    std::string output = report.takeOutput();
    if (const std::optional<launch::Failure> &failure = report.getFailure())
      getPending().push_back({report.getMetadata().name,
                              describeFailure(report.getMonitor(), *failure, report.getMetadata(), report.getGrid())});
    if (!output.empty())
      showText(output);
  }
}

/// kiln.runtime.refusals.failure, once reports are watched; never destroyed.
static py::object *raiseFailure = nullptr;

void kiln::python::raiseReports() {
  if (getPending().empty())
    return;
  Pending first = std::move(getPending().front());
  getPending().clear();
  (*raiseFailure)(first.kernel, first.what);
}

bool kiln::python::reportsWatched = false;

void kiln::python::watchReports() {
  if (reportsWatched)
    return;
  raiseFailure = new py::object(findRaiseFailure());
  reportsWatched = true;
  device::setLogListener([] { Py_AddPendingCall(showSoon, nullptr); });
  auto atExit = py::cpp_function([] {
    {
      WithoutLock released;
      for (device::CudaDevice *device : device::CudaDevice::getUsed())
        (void)device->synchronize();
    }
    device::setLogListener(nullptr);
    showReports();
    // A program that ends before the next launch would never hear of it otherwise.
    try {
      raiseReports();
    } catch (py::error_already_set &error) {
      py::print(error.value(), py::arg("file") = py::module_::import("sys").attr("stderr"));
    }
  });
  py::module_::import("atexit").attr("register")(atExit);
}
