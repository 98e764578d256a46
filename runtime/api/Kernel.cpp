// See Kernel.h.
#include "runtime/api/Kernel.h"
#include "runtime/api/Machine.h"
#include "runtime/api/Report.h"
#include "runtime/device/CpuKernel.h"
#include "runtime/device/HostLibrary.h"
#include "runtime/launch/Monitor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kiln;
using namespace kiln::api;
using launch::CallEncoder;
using launch::Dispatcher;
using launch::Specialization;
using Kind = Specialization::Kind;

//===-- Reading an export ----------------------------------------------------------------------------------------===//

ErrorOr<kiln_kernel *> kiln_kernel::create(const kiln_export &source) {
  if (source.version != KILN_RUNTIME_VERSION)
    return invalidArgument(llvm::formatv("expected an export for version {0} of this library, got one for version {1}",
                                         KILN_RUNTIME_VERSION, source.version));
  // Linked code calls these by name, so the linker must keep them.
  if (device::getHostLibrary().empty())
    return internalError("no functions for code of the CPU");
  std::unique_ptr<kiln_kernel, void (*)(kiln_kernel *)> made(new kiln_kernel(source),
                                                             [](kiln_kernel *kernel) { delete kernel; });
  if (Status status = made->read(); !status.ok())
    return status;
  return made.release();
}

kiln_kernel::~kiln_kernel() {
  for (std::atomic<Table *> &table : tables)
    delete table.load();
}

Status kiln_kernel::read() {
  for (size_t i = 0; i < source.parameter_count; ++i)
    names.push_back(source.parameters[i]);
  for (const kiln_variant &item : llvm::ArrayRef(source.variants, source.variant_count)) {
    ErrorOr<artifact::Metadata> metadata = artifact::Metadata::parse(item.metadata);
    if (!metadata.ok())
      return metadata.getStatus();
    ErrorOr<std::vector<Specialization>> signature = launch::parseSignature(item.signature);
    if (!signature.ok())
      return signature.getStatus();
    uint32_t blockBytes = 0;
    if (signature->size() != names.size() ||
        !launch::isPackedFor(*metadata, launch::flatten(names, *signature, blockBytes), blockBytes))
      return corrupt(llvm::formatv("kernel '{0}': the arguments that the code of variant {1} expects are not those of "
                                   "its signature, {2}",
                                   source.name, variants.size(), item.signature));
    if (!item.code == !item.entry)
      return corrupt(llvm::formatv("kernel '{0}': expected code or an entry for variant {1}, got {2}", source.name,
                                   variants.size(), item.code ? "both" : "none"));
    variants.push_back({&item, std::move(*metadata), std::move(*signature)});
  }
  parameters.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    if (Status status = readParameter(i); !status.ok())
      return status;
  return {};
}

Status kiln_kernel::readParameter(size_t index) {
  Parameter &parameter = parameters[index];
  parameter.rule.name = names[index];
  parameter.isConstant = true;
  bool hasConstant = false, sameType = true;
  std::optional<artifact::ElementType> type;
  for (const Variant &variant : variants) {
    const Specialization &item = variant.parameters[index];
    parameter.isConstant &= item.isConstant();
    parameter.mayBeNone |= item.kind == Kind::None;
    hasConstant |= item.isConstant();
    if (item.kind == Kind::Scalar) {
      sameType &= !type || *type == item.element;
      type = item.element;
      parameter.rule.isStride |= item.divisor > 1;
    } else if (item.kind == Kind::Descriptor && !parameter.hasDescriptor) {
      parameter.hasDescriptor = true;
      parameter.block = item.block;
    } else if (item.kind == Kind::Tuple || item.kind == Kind::Object) {
      return corrupt(
          llvm::formatv("kernel '{0}': expected a type or a number for parameter '{1}' of an export, got {2}",
                        source.name, names[index], variant.source->signature));
    }
  }
  // A type that all variants share is the argument's, whatever its value.
  if (type && sameType && !hasConstant)
    parameter.rule.annotation = type;
  return {};
}

//===-- Devices --------------------------------------------------------------------------------------------------===//

ErrorOr<std::vector<unsigned>> kiln_kernel::chooseVariants(int32_t ordinal) const {
  const device::CudaProperties *gpu = nullptr;
  if (ordinal != KILN_CPU) {
    ErrorOr<device::CudaDevice *> device = device::CudaDevice::get(ordinal);
    if (!device.ok())
      return device.getStatus();
    gpu = &(*device)->getProperties();
  }
  std::vector<std::pair<int, unsigned>> ranked;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < variants.size(); ++i) {
    const artifact::Metadata &metadata = variants[i].metadata;
    std::string why;
    std::optional<int> rank;
    if (bool(gpu) == metadata.cuda.has_value())
      rank = gpu ? rankOnGpu(metadata, *gpu, why) : rankOnCpu(metadata, why);
    if (rank)
      ranked.push_back({*rank, unsigned(i)});
    else if (!why.empty() && !llvm::is_contained(reasons, why))
      reasons.push_back(why);
  }
  if (ranked.empty()) {
    std::string where = gpu ? llvm::formatv("CUDA device {0} ({1}, compute capability {2}.{3})", ordinal, gpu->name,
                                            gpu->major, gpu->minor)
                                  .str()
                            : "this CPU";
    return Status(StatusCode::NoVariant, llvm::formatv("kernel '{0}' was not exported for {1}{2}", source.name, where,
                                                       reasons.empty() ? "" : ": " + llvm::join(reasons, "; "))
                                             .str());
  }
  // Of two variants that state the same facts, the dispatcher takes the first: the one for the machine's own target.
  llvm::sort(ranked, [](auto &a, auto &b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<unsigned> chosen;
  for (auto [rank, index] : ranked)
    chosen.push_back(index);
  return chosen;
}

ErrorOr<kiln_kernel::Table *> kiln_kernel::getTable(int32_t ordinal) {
  if (ordinal < KILN_CPU || ordinal >= mostDevices)
    return invalidArgument(llvm::formatv("expected KILN_CPU or the number of a CUDA device, got {0}", ordinal));
  std::atomic<Table *> &place = tables[ordinal + 1];
  if (Table *table = place.load(std::memory_order_acquire))
    return table;
  std::lock_guard<std::mutex> lock(mutex);
  if (Table *table = place.load(std::memory_order_acquire))
    return table;
  ErrorOr<std::vector<unsigned>> chosen = chooseVariants(ordinal);
  if (!chosen.ok())
    return chosen.getStatus();
  std::vector<Dispatcher::Variant> list;
  for (unsigned index : *chosen)
    list.push_back(variants[index].parameters);
  auto *table = new Table(std::move(*chosen), std::move(list));
  place.store(table, std::memory_order_release);
  return table;
}

ErrorOr<device::LoadedKernel *> kiln_kernel::load(Table &table, unsigned index, int32_t ordinal) {
  Slot &slot = table.slots[index];
  if (device::LoadedKernel *kernel = slot.kernel.load(std::memory_order_acquire))
    return kernel;
  std::lock_guard<std::mutex> lock(slot.mutex);
  if (device::LoadedKernel *kernel = slot.kernel.load(std::memory_order_acquire))
    return kernel;
  const Variant &variant = variants[table.chosen[index]];
  if (variant.source->entry) {
    slot.owner = device::makeCpuKernel(variant.metadata, variant.source->entry);
  } else {
    ErrorOr<device::CudaDevice *> device = device::CudaDevice::get(ordinal);
    if (!device.ok())
      return device.getStatus();
    artifact::Artifact artifact;
    artifact.binary.assign(static_cast<const char *>(variant.source->code), variant.source->code_bytes);
    artifact.metadata = variant.metadata;
    ErrorOr<std::shared_ptr<device::LoadedKernel>> loaded = (*device)->load(std::move(artifact), source.name);
    if (!loaded.ok())
      return loaded.getStatus();
    slot.owner = std::move(*loaded);
  }
  slot.kernel.store(slot.owner.get(), std::memory_order_release);
  return slot.owner.get();
}

Status kiln_kernel::prepare(int32_t device) {
  ErrorOr<Table *> table = getTable(device);
  if (!table.ok())
    return table.getStatus();
  for (unsigned i = 0; i < (*table)->slots.size(); ++i)
    if (ErrorOr<device::LoadedKernel *> kernel = load(**table, i, device); !kernel.ok())
      return kernel.getStatus();
  return {};
}

//===-- Launching ------------------------------------------------------------------------------------------------===//

Status kiln_kernel::refuse(size_t parameter, const std::string &problem) const {
  return invalidArgument(llvm::formatv("kernel '{0}': argument '{1}': {2}", source.name, names[parameter], problem));
}

static Status addConstant(CallEncoder &encoder, const kiln_argument &argument) {
  switch (argument.kind) {
  case KILN_ARGUMENT_BOOL:
    encoder.addConstantBool(argument.value.integer != 0);
    return {};
  case KILN_ARGUMENT_INTEGER:
    encoder.addConstantInteger(argument.value.integer);
    return {};
  case KILN_ARGUMENT_UNSIGNED:
    encoder.addConstantInteger(int64_t(argument.value.natural));
    return {};
  case KILN_ARGUMENT_FLOAT:
    encoder.addConstantFloat(argument.value.number);
    return {};
  case KILN_ARGUMENT_TEXT:
    encoder.addConstantString(argument.value.text);
    return {};
  default:
    return invalidArgument("expected a number or a text (because the value chooses the variant), got an array");
  }
}

static Status addScalar(CallEncoder &encoder, const launch::ParameterRule &rule, const kiln_argument &argument) {
  uint64_t natural = argument.value.natural;
  switch (argument.kind) {
  case KILN_ARGUMENT_BOOL:
    return encoder.addBool(rule, argument.value.integer != 0);
  case KILN_ARGUMENT_UNSIGNED:
    return natural > uint64_t(INT64_MAX) ? encoder.addUnsigned(rule, natural)
                                         : encoder.addInteger(rule, int64_t(natural));
  case KILN_ARGUMENT_FLOAT:
    return encoder.addFloat(rule, argument.value.number);
  default:
    return encoder.addInteger(rule, argument.value.integer);
  }
}

/// `code`: the specialisation that the call is packed for, once it is known.
Status kiln_kernel::encodeOne(CallEncoder &encoder, size_t index, const kiln_argument &argument,
                              const Specialization *code) const {
  const Parameter &parameter = parameters[index];
  if (argument.kind == KILN_ARGUMENT_NONE ||
      (argument.kind == KILN_ARGUMENT_POINTER && !argument.value.pointer && parameter.mayBeNone)) {
    encoder.addNone();
    return {};
  }
  if (unsigned(argument.kind) > KILN_ARGUMENT_TEXT)
    return invalidArgument(
        llvm::formatv("expected a kind of argument that kiln/runtime.h names, got {0}", argument.kind));
  if (parameter.isConstant || argument.kind == KILN_ARGUMENT_TEXT || (code && code->isConstant()))
    return addConstant(encoder, argument);
  auto element = artifact::ElementType(argument.element);
  bool isArray = argument.kind == KILN_ARGUMENT_POINTER || argument.kind == KILN_ARGUMENT_DESCRIPTOR;
  if (argument.kind == KILN_ARGUMENT_DESCRIPTOR && !argument.value.descriptor)
    return invalidArgument("expected a descriptor, got null");
  if (argument.kind == KILN_ARGUMENT_DESCRIPTOR)
    element = artifact::ElementType(argument.value.descriptor->base.element);
  if (isArray && unsigned(element) >= artifact::numElementTypes)
    return invalidArgument(
        llvm::formatv("expected an element type that kiln/runtime.h names, got {0}", unsigned(element)));
  if (isArray && parameter.rule.annotation)
    return invalidArgument("expected a number, got an array");
  if (argument.kind == KILN_ARGUMENT_POINTER) {
    encoder.addPointer(parameter.rule, element, argument.value.pointer);
    return {};
  }
  if (argument.kind == KILN_ARGUMENT_DESCRIPTOR) {
    const kiln_descriptor &what = *argument.value.descriptor;
    if (!parameter.hasDescriptor || what.rank != int32_t(parameter.block.size()))
      return invalidArgument(llvm::formatv(
          "expected {0}, got a descriptor of rank {1}",
          parameter.hasDescriptor ? "a descriptor of rank " + std::to_string(parameter.block.size()) : "no descriptor",
          what.rank));
    llvm::ArrayRef<int64_t> block = code ? llvm::ArrayRef<int64_t>(code->block) : parameter.block;
    llvm::ArrayRef<int64_t> shape(what.shape, size_t(what.rank)), strides(what.strides, size_t(what.rank));
    if (Status status = launch::checkDescriptor(element, what.base.data, block, shape, strides); !status.ok())
      return status;
    encoder.addDescriptor(parameter.rule, element, what.base.data, block, /*nanPadding=*/false, shape, strides);
    return {};
  }
  launch::ParameterRule rule = parameter.rule;
  if (code)
    rule.annotation = code->element;
  return addScalar(encoder, rule, argument);
}

Status kiln_kernel::encode(CallEncoder &encoder, llvm::ArrayRef<kiln_argument> arguments,
                           const Dispatcher::Variant *variant) const {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (Status status = encodeOne(encoder, i, arguments[i], variant ? &(*variant)[i] : nullptr); !status.ok())
      return refuse(i, status.getMessage());
  return {};
}

Status kiln_kernel::launch(kiln_stream stream, kiln_grid sides, llvm::ArrayRef<kiln_argument> arguments) {
  if (arguments.size() != names.size())
    return invalidArgument(
        llvm::formatv("kernel '{0}': expected {1} arguments, got {2}", source.name, names.size(), arguments.size()));
  device::Grid grid{sides.x, sides.y, sides.z};
  if (sides.x < 0 || sides.y < 0 || sides.z < 0 || double(sides.x) * sides.y * sides.z > 0x1p60)
    return invalidArgument(llvm::formatv("kernel '{0}': expected a grid with sides from 0 to {1} and at most 2^60 "
                                         "program instances, got ({2}, {3}, {4})",
                                         source.name, INT32_MAX, sides.x, sides.y, sides.z));
  ErrorOr<Table *> table = getTable(stream.device);
  if (!table.ok())
    return table.getStatus();
  Dispatcher &dispatcher = (*table)->dispatcher;
  CallEncoder encoder;
  if (Status status = encode(encoder, arguments, nullptr); !status.ok())
    return status;
  std::optional<unsigned> index = dispatcher.find(encoder.getKey());
  if (!index)
    return {StatusCode::NoVariant, llvm::formatv("kernel '{0}' has no variant for these arguments:{1}", source.name,
                                                 dispatcher.explain(encoder.getKey(), names))
                                       .str()};
  // A variant that states fewer facts may pack differently: an integer 1 is an argument of it, and 32 bits may be 64.
  if (encoder.getKey() != dispatcher.getKey(*index)) {
    encoder.clear();
    if (Status status = encode(encoder, arguments, &dispatcher.getVariant(*index)); !status.ok())
      return status;
  }
  ErrorOr<device::LoadedKernel *> kernel = load(**table, *index, stream.device);
  if (!kernel.ok())
    return kernel.getStatus();
  if (grid.count() == 0)
    return {};
  device::LaunchRequest request;
  request.grid = grid;
  request.arguments = encoder.getBlock();
  request.stream = stream.stream;
  if (stream.device != KILN_CPU) {
    // Reports of earlier launches surface at the next launch, as in Python.
    if (Status status = takeReports(); !status.ok())
      return status;
    return (*kernel)->launch(request);
  }
  return launch::Monitor::isNeeded((*kernel)->getMetadata()) ? launchObserved(**kernel, request)
                                                             : (*kernel)->launch(request);
}
