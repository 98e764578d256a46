// Loads and launches code on a GPU.
#include "runtime/device/CudaKernel.h"
#include "runtime/device/CudaLog.h"
#include "runtime/device/CudaTensorMap.h"
#include "runtime/support/ForkGuard.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <cstring>
#include <set>

using namespace kiln;
using namespace kiln::device;
using cuda::FunctionAttribute;

//===-- Modules --------------------------------------------------------------------------------------------------===//

ErrorOr<std::unique_ptr<CudaModule>> CudaModule::load(CudaDevice &device, llvm::StringRef image,
                                                      const std::string &what) {
  if (Status status = device.check(); !status.ok())
    return status;
  ForkGuard guard;
  CudaDevice::SetupScope scope(device);
  // PTX is text and must end in a zero byte; a cubin contains its own length.
  std::string copy = image.str();
  std::vector<char> errors(16384, 0);
  cuda::JitOption options[] = {cuda::JitOption::ErrorLog, cuda::JitOption::ErrorLogBytes, cuda::JitOption::LineInfo};
  void *values[] = {errors.data(), reinterpret_cast<void *>(errors.size()), reinterpret_cast<void *>(1)};
  cuda::Module module = nullptr;
  if (cuda::Result result = device.getDriver().moduleLoadDataEx(&module, copy.c_str(), 3, options, values)) {
    Status status = device.fail(llvm::formatv("load {0} on CUDA device {1} ({2}, compute capability {3}.{4})", what,
                                              device.getOrdinal(), device.getProperties().name,
                                              device.getProperties().major, device.getProperties().minor),
                                result);
    errors.back() = 0;
    llvm::StringRef log = llvm::StringRef(errors.data()).rtrim();
    return log.empty() ? status : Status(status.getCode(), status.getMessage() + "\n" + log.str());
  }
  return std::unique_ptr<CudaModule>(new CudaModule(device, module));
}

CudaModule::~CudaModule() {
  if (!forever.load())
    device.retire(module);
}

ErrorOr<cuda::Function> CudaModule::find(const std::string &symbol) const {
  CudaDevice::Scope scope(device);
  cuda::Function function = nullptr;
  cuda::Result result = device.getDriver().moduleGetFunction(&function, module, symbol.c_str());
  if (result == cuda::errorNotFound)
    return corrupt(llvm::formatv("expected code that defines '{0}', got none of that name", symbol));
  if (result)
    return device.fail("look up " + symbol, result);
  return function;
}

//===-- Functions ------------------------------------------------------------------------------------------------===//

/// One copy of each label, kept for the life of the process.
static const std::string *keepLabel(std::string label) {
  static auto *mutex = new std::mutex;
  static auto *labels = new std::set<std::string>;
  std::lock_guard<std::mutex> lock(*mutex);
  return &*labels->insert(std::move(label)).first;
}

ErrorOr<CudaFunction> CudaFunction::find(std::shared_ptr<CudaModule> module, const std::string &symbol,
                                         std::string label) {
  ErrorOr<cuda::Function> function = module->find(symbol);
  if (!function.ok())
    return function.getStatus();
  CudaFunction result;
  result.device = &module->getDevice();
  result.module = std::move(module);
  result.function = *function;
  result.label = keepLabel(std::move(label));
  result.fixedCluster = result.getAttribute(FunctionAttribute::RequiredClusterWidth) > 0;
  return result;
}

int CudaFunction::getAttribute(FunctionAttribute attribute) const {
  CudaDevice::SetupScope scope(*device);
  int value = 0;
  return device->getDriver().funcGetAttribute(&value, attribute, function) ? 0 : value;
}

std::vector<std::pair<size_t, size_t>> CudaFunction::getParameters() const {
  std::vector<std::pair<size_t, size_t>> parameters;
  CudaDevice::Scope scope(*device);
  auto *ask = device->getDriver().funcGetParamInfo;
  size_t offset, size;
  while (ask && !ask(function, parameters.size(), &offset, &size))
    parameters.push_back({offset, size});
  return parameters;
}

static uint64_t product(const unsigned (&sides)[3]) { return uint64_t(sides[0]) * sides[1] * sides[2]; }

Status CudaFunction::prepare(const CudaShape &shape) {
  const CudaProperties &has = device->getProperties();
  const CudaDriver &driver = device->getDriver();
  uint64_t threads = product(shape.block), cluster = product(shape.cluster);
  if (threads > uint64_t(has.maxThreads))
    return outOf({"threads of one block", int64_t(threads), has.maxThreads, "num_warps"});
  if (int most = getAttribute(FunctionAttribute::MaxThreadsPerBlock); most && threads > uint64_t(most)) {
    int64_t registers = getAttribute(FunctionAttribute::Registers);
    return outOf({"registers of one block", registers * int64_t(threads), has.registers, "num_warps, or set maxnreg"});
  }
  int64_t fixed = getAttribute(FunctionAttribute::SharedBytes);
  if (fixed + int64_t(shape.sharedBytes) > has.sharedBytes)
    return outOf({"shared memory of one block", fixed + int64_t(shape.sharedBytes), has.sharedBytes,
                  "the sides of the tiles, or num_stages"});
  if (cluster > 1 && !has.clusters)
    return outOf({"blocks of one cluster", int64_t(cluster), 1, "cluster: " + has.name + " has no clusters"});
  CudaDevice::SetupScope scope(*device);
  if (shape.sharedBytes > allowedSharedBytes) {
    if (cuda::Result result =
            driver.funcSetAttribute(function, FunctionAttribute::MaxDynamicSharedBytes, int(shape.sharedBytes)))
      return device->fail(llvm::formatv("allow {0} bytes of shared memory for {1}", shape.sharedBytes, *label), result);
    allowedSharedBytes = shape.sharedBytes;
  }
  if (cluster > allowedCluster) {
    if (driver.funcSetAttribute(function, FunctionAttribute::NonPortableClusterSizeAllowed, 1))
      return outOf({"blocks of one cluster", int64_t(cluster), allowedCluster, "cluster"});
    allowedCluster = 16;
  }
  return {};
}

namespace {
/// The driver's description of a launch, with the attributes that it points to.
struct Config {
  cuda::LaunchConfig config{};
  cuda::LaunchAttribute attributes[2];

  Config(const CudaShape &shape, bool fixedCluster, cuda::Stream stream) {
    for (int axis = 0; axis < 3; ++axis) {
      config.grid[axis] = shape.grid[axis];
      config.block[axis] = shape.block[axis];
    }
    config.sharedBytes = shape.sharedBytes;
    config.stream = stream;
    config.attributes = attributes;
    if (!fixedCluster && product(shape.cluster) > 1) {
      cuda::LaunchAttribute &attribute = attributes[config.attributeCount++];
      attribute.id = cuda::LaunchAttributeId::ClusterDimension;
      std::copy(std::begin(shape.cluster), std::end(shape.cluster), attribute.value.cluster);
    }
    if (shape.programmatic) {
      cuda::LaunchAttribute &attribute = attributes[config.attributeCount++];
      attribute.id = cuda::LaunchAttributeId::ProgrammaticStreamSerialization;
      attribute.value.programmatic = 1;
    }
  }
};
} // namespace

Status CudaFunction::launch(const CudaShape &shape, const void *arguments, size_t bytes, cuda::Stream stream,
                            const Grid &shown) {
  CudaDevice::Scope scope(*device);
  const CudaDriver &driver = device->getDriver();
  Config config(shape, fixedCluster, stream);
  void *extra[] = {cuda::paramBuffer, const_cast<void *>(arguments), cuda::paramBytes, &bytes, cuda::paramEnd};
  device->noteLaunch(label, shown);
  if (cuda::Result result = driver.launchKernelEx(&config.config, function, nullptr, bytes ? extra : nullptr))
    return device->fail("launch " + *label, result);
  // A graph keeps the function but not the module. The legacy stream cannot be captured.
  if (stream && stream != cuda::legacyStream && !module->isKeptForever()) {
    cuda::CaptureStatus capturing = cuda::CaptureStatus::None;
    if (!driver.streamIsCapturing(stream, &capturing) && capturing != cuda::CaptureStatus::None)
      module->keepForever();
  }
  return {};
}

Status CudaFunction::launchAlone(const CudaShape &shape, const void *arguments, size_t bytes, cuda::Stream stream,
                                 llvm::function_ref<bool()> next) {
  CudaDevice::Scope scope(*device);
  Config config(shape, fixedCluster, stream);
  void *extra[] = {cuda::paramBuffer, const_cast<void *>(arguments), cuda::paramBytes, &bytes, cuda::paramEnd};
  while (next())
    if (cuda::Result result =
            device->getDriver().launchKernelEx(&config.config, function, nullptr, bytes ? extra : nullptr))
      return device->fail("launch " + *label, result);
  return {};
}

CodeFigures CudaFunction::measure(const CudaShape &shape) const {
  CodeFigures figures;
  uint64_t threads = product(shape.block);
  figures.registers = getAttribute(FunctionAttribute::Registers);
  figures.localBytes = getAttribute(FunctionAttribute::LocalBytes);
  figures.sharedBytes = getAttribute(FunctionAttribute::SharedBytes) + int(shape.sharedBytes);
  figures.maxThreads = getAttribute(FunctionAttribute::MaxThreadsPerBlock);
  figures.binaryVersion = getAttribute(FunctionAttribute::BinaryVersion);
  figures.threads = int(threads);
  CudaDevice::Scope scope(*device);
  const CudaDriver &driver = device->getDriver();
  if (driver.occupancyMaxActiveBlocks(&figures.blocksPerProcessor, function, int(threads), shape.sharedBytes))
    figures.blocksPerProcessor = 0;
  if (product(shape.cluster) > 1) {
    Config config(shape, /*fixedCluster=*/false, nullptr);
    std::copy(std::begin(shape.cluster), std::end(shape.cluster), config.config.grid);
    if (driver.occupancyMaxActiveClusters(&figures.clusters, function, &config.config))
      figures.clusters = 0;
  }
  return figures;
}

//===-- Kernels --------------------------------------------------------------------------------------------------===//

namespace {
class CudaKernel final : public LoadedKernel {
public:
  CudaKernel(artifact::Metadata metadata, CudaFunction function, const CudaShape &shape)
      : LoadedKernel(std::move(metadata)), function(std::move(function)), device(this->function.getDevice()),
        shape(shape) {
    const artifact::Metadata &known = getMetadata();
    for (const artifact::ArgumentSpec &argument : known.arguments)
      argumentBytes = std::max<size_t>(argumentBytes, argument.offset + argument.size);
    for (const artifact::Site &site : known.sites)
      prints |= site.kind == artifact::SiteKind::Print;
    if (!known.sites.empty())
      shared = std::make_shared<artifact::Metadata>(known);
    hidden = artifact::layoutHidden(known);
    parameterBytes = hidden.end;
    if (!known.cuda->tensorMaps.empty())
      parameterBytes = known.cuda->tensorMaps.back().offset + artifact::kTensorMapBytes;
    figures = this->function.measure(shape);
    if (known.cuda->persistent)
      resident = countResident();
  }

  ~CudaKernel() override {
    // A graph that may hold the code may also still write to the log.
    if (watchedLog && !function.isKeptForever())
      device.getLogs().unwatch(watchedLog);
  }

  Status makeTensorMaps() {
    if (getMetadata().cuda->tensorMaps.empty())
      return {};
    ErrorOr<std::unique_ptr<CudaTensorMaps>> made = CudaTensorMaps::create(device, getMetadata());
    if (!made.ok())
      return made.getStatus();
    tensorMaps = std::move(*made);
    // The assembler decides where its code expects the maps: it aligns them relative to the constant bank that holds
    // the parameters, which does not start where the parameters do.
    const size_t count = getMetadata().cuda->tensorMaps.size();
    std::vector<std::pair<size_t, size_t>> placed = function.getParameters();
    if (placed.size() < count)
      return {};
    std::vector<size_t> offsets;
    for (size_t i = placed.size() - count; i < placed.size(); ++i)
      offsets.push_back(placed[i].first);
    tensorMaps->placeAt(offsets);
    parameterBytes = offsets.back() + artifact::kTensorMapBytes;
    return {};
  }

  Status watchLog() {
    if (!shared || prints)
      return {};
    ErrorOr<cuda::Address> log = device.getLogs().watch(shared);
    if (!log.ok())
      return log.getStatus();
    watchedLog = *log;
    return {};
  }

  const CodeFigures *getFigures() const override { return &figures; }

  Status launch(const LaunchRequest &request) override {
    if (Status status = device.check(); !status.ok())
      return status;
    const Grid &grid = request.grid;
    if (grid.count() == 0)
      return {};
    if (getMetadata().cuda->bounded && !request.boundsKnown)
      if (Status status = checkBounds(request); !status.ok())
        return status;
    CudaShape where = shape;
    if (Status status = placeGrid(grid, where); !status.ok())
      return status;
    auto stream = static_cast<cuda::Stream>(request.stream);
    if (parameterBytes == argumentBytes)
      return function.launch(where, request.arguments, argumentBytes, stream, grid);
    return launchWithHidden(where, request, stream);
  }

  Status timeLaunches(const LaunchRequest &request, int64_t gap, llvm::MutableArrayRef<int64_t> times) override {
    if (parameterBytes != argumentBytes)
      return LoadedKernel::timeLaunches(request, gap, times);
    CudaShape where = shape;
    if (Status status = placeGrid(request.grid, where); !status.ok())
      return status;
    // Each launch happens between two calls of the callback.
    auto clock = [] { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); };
    int64_t last = 0;
    size_t begun = 0;
    return function.launchAlone(where, request.arguments, argumentBytes, static_cast<cuda::Stream>(request.stream),
                                [&] {
                                  if (begun)
                                    times[begun - 1] = clock() - last;
                                  if (begun++ == times.size())
                                    return false;
                                  waitForGap(last, gap);
                                  return true;
                                });
  }

private:
  /// Checks what code with descriptors in place of pointers assumes. A launch through a kernel has checked this before
  /// choosing the code, and says so in the request; a launch of given code has not.
  Status checkBounds(const LaunchRequest &request) const {
    const Grid &grid = request.grid;
    for (int64_t side : {grid.x, grid.y, grid.z})
      if (side > artifact::kMostPrograms)
        return invalidArgument(llvm::formatv("grid ({0}, {1}, {2}): expected at most {3} program instances along each "
                                             "axis (because the code was compiled with describe_pointers), got {4}",
                                             grid.x, grid.y, grid.z, artifact::kMostPrograms, side));
    for (const artifact::ArgumentSpec &argument : getMetadata().arguments) {
      if (argument.kind != artifact::ArgumentKind::Scalar || !artifact::isInteger(argument.element) ||
          argument.element == artifact::ElementType::I1)
        continue;
      int64_t value = artifact::readInteger(argument, static_cast<const char *>(request.arguments),
                                            !artifact::isSignedInteger(argument.element));
      if (value < 0 || value > artifact::kMostCount)
        return invalidArgument(llvm::formatv("argument '{0}': expected 0 to 2^30 (because the code was compiled with "
                                             "describe_pointers), got {1}",
                                             argument.name, value));
    }
    if (const artifact::LaunchNumber *number =
            getMetadata().findNotPositive(request.arguments, {grid.x, grid.y, grid.z}))
      return invalidArgument(llvm::formatv("grid ({0}, {1}, {2}): expected one for which the code divides by positive "
                                           "numbers in all program instances (because it was compiled with "
                                           "describe_pointers), got one for which '{3}' is not positive",
                                           grid.x, grid.y, grid.z, number->getText()));
    return {};
  }

  /// The number of clusters that are resident on the device at once.
  uint64_t countResident() const {
    int processors = device.getProperties().multiprocessors;
    int clusters = shape.cluster[0] > 1 ? figures.clusters : figures.blocksPerProcessor * processors;
    // If the driver does not say, assume one block per processor.
    return uint64_t(clusters > 0 ? clusters : std::max(processors / int(shape.cluster[0]), 1));
  }

  Status placeGrid(const Grid &grid, CudaShape &where) const {
    const CudaProperties &has = device.getProperties();
    if (resident) {
      // The last step goes beyond the last instance.
      int64_t most = INT32_MAX - int64_t(resident);
      if (grid.count() > most)
        return invalidArgument(llvm::formatv("grid ({0}, {1}, {2}): expected at most {3} program instances (because a "
                                             "persistent kernel counts them in 32 bits), got {4}",
                                             grid.x, grid.y, grid.z, most, grid.count()));
      where.grid[0] = unsigned(std::min(uint64_t(grid.count()), resident)) * shape.cluster[0];
      return {};
    }
    uint64_t blocks = uint64_t(grid.x) * shape.cluster[0];
    if (blocks > uint64_t(has.maxGrid[0]) || grid.y > has.maxGrid[1] || grid.z > has.maxGrid[2])
      return refuseGrid(grid);
    where.grid[0] = unsigned(blocks);
    where.grid[1] = grid.y;
    where.grid[2] = grid.z;
    return {};
  }

  Status refuseGrid(const Grid &grid) const {
    const CudaProperties &has = device.getProperties();
    std::string why =
        shape.cluster[0] > 1 ? llvm::formatv(" (because each takes {0} blocks)", shape.cluster[0]).str() : "";
    if (uint64_t(grid.x) * shape.cluster[0] > uint64_t(has.maxGrid[0]))
      return invalidArgument(
          llvm::formatv("grid ({0}, {1}, {2}): expected at most {3} program instances in dimension 0 "
                        "of a GPU{4}, got {0}",
                        grid.x, grid.y, grid.z, has.maxGrid[0] / shape.cluster[0], why));
    int axis = grid.y > has.maxGrid[1] ? 1 : 2;
    return invalidArgument(
        llvm::formatv("grid ({0}, {1}, {2}): expected at most {3} program instances in dimension {4} "
                      "of a GPU, got {5}; put the largest side first",
                      grid.x, grid.y, grid.z, has.maxGrid[axis], axis, axis == 1 ? grid.y : grid.z));
  }

  /// Launches with the hidden parameters after the arguments: the log, the logical grid, tensor maps.
  Status launchWithHidden(const CudaShape &where, const LaunchRequest &request, cuda::Stream stream) {
    llvm::SmallVector<uint64_t, 96> block((parameterBytes + 7) / 8, 0);
    auto *bytes = reinterpret_cast<char *>(block.data());
    if (argumentBytes)
      std::memcpy(bytes, request.arguments, argumentBytes);
    if (resident) {
      const int32_t counted[] = {request.grid.x, request.grid.y, request.grid.z};
      std::memcpy(bytes + hidden.grid, counted, sizeof counted);
    }
    if (tensorMaps)
      if (Status status = tensorMaps->fill(bytes); !status.ok())
        return status;
    if (!shared)
      return function.launch(where, bytes, parameterBytes, stream, request.grid);
    if (!prints) {
      std::memcpy(bytes + hidden.log, &watchedLog, sizeof watchedLog);
      return function.launch(where, bytes, parameterBytes, stream, request.grid);
    }
    cuda::CaptureStatus capturing = cuda::CaptureStatus::None;
    if (stream && stream != cuda::legacyStream) {
      CudaDevice::Scope scope(device);
      device.getDriver().streamIsCapturing(stream, &capturing);
    }
    ErrorOr<CudaLogs::Ticket *> ticket =
        device.getLogs().begin(shared, request.grid, capturing != cuda::CaptureStatus::None, stream);
    if (!ticket.ok())
      return ticket.getStatus();
    std::memcpy(bytes + hidden.log, &(*ticket)->address, sizeof(*ticket)->address);
    Status status = function.launch(where, bytes, parameterBytes, stream, request.grid);
    if (!status.ok()) {
      if (status.getCode() != StatusCode::DeviceLost)
        device.getLogs().cancel(*ticket);
      return status;
    }
    CudaDevice::Scope scope(device);
    return device.getLogs().collectBehind(*ticket, stream);
  }

  CudaFunction function;
  CudaDevice &device;
  CudaShape shape;                              ///< except the grid
  size_t argumentBytes = 0, parameterBytes = 0; ///< without and with hidden parameters
  artifact::HiddenParameters hidden;
  uint64_t resident = 0; ///< for a persistent kernel: the most clusters to launch
  std::unique_ptr<CudaTensorMaps> tensorMaps;
  bool prints = false;
  std::shared_ptr<const artifact::Metadata> shared; ///< for kernels with sites
  cuda::Address watchedLog = 0;
  CodeFigures figures;
};
} // namespace

ErrorOr<std::shared_ptr<LoadedKernel>> CudaDevice::load(artifact::Artifact artifact, std::string label) {
  const artifact::Metadata &metadata = artifact.metadata;
  if (!metadata.cuda)
    return corrupt(llvm::formatv("expected the artifact of kernel '{0}' to say how it is launched on a GPU (metadata "
                                 "object \"cuda\"), got none",
                                 metadata.name));
  const artifact::CudaLaunch &how = *metadata.cuda;
  CudaShape shape;
  shape.block[0] = unsigned(how.threads);
  shape.cluster[0] = unsigned(how.cluster);
  shape.sharedBytes = unsigned(how.sharedBytes);
  shape.programmatic = how.pdl;
  // Checked before asking the driver, whose error for a kernel that cannot fit names neither the amount nor the option.
  if (how.sharedBytes > properties.sharedBytes)
    return outOf({"shared memory of one block", int64_t(how.sharedBytes), properties.sharedBytes,
                  "the sides of the tiles, or num_stages"});
  if (how.cluster > 1 && !properties.clusters)
    return outOf(
        {"blocks of one cluster", int64_t(how.cluster), 1, "cluster: " + properties.name + " has no clusters"});
  ErrorOr<std::unique_ptr<CudaModule>> module =
      CudaModule::load(*this, artifact.binary, llvm::formatv("kernel '{0}'", metadata.name));
  if (!module.ok())
    return module.getStatus();
  ErrorOr<CudaFunction> function =
      CudaFunction::find(std::move(*module), metadata.symbol, label.empty() ? metadata.name : std::move(label));
  if (!function.ok())
    return function.getStatus();
  if (Status status = function->prepare(shape); !status.ok())
    return status;
  auto kernel = std::make_shared<CudaKernel>(std::move(artifact.metadata), std::move(*function), shape);
  if (Status status = kernel->makeTensorMaps(); !status.ok())
    return status;
  if (Status status = kernel->watchLog(); !status.ok())
    return status;
  return std::shared_ptr<LoadedKernel>(std::move(kernel));
}
