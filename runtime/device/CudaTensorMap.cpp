// See CudaTensorMap.h.
#include "runtime/device/CudaTensorMap.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>
#include <memory>

using namespace kiln;
using namespace kiln::device;
using artifact::ElementType;
using artifact::TensorMapSpec;

static constexpr size_t fewestEntries = 16, mostEntries = 256;

/// The driver's limits.
static constexpr uint64_t baseAlign = 16, strideAlign = 16, mostSize = uint64_t(1) << 32,
                          endOfStrides = uint64_t(1) << 40;

ErrorOr<std::unique_ptr<CudaTensorMaps>> CudaTensorMaps::create(CudaDevice &device,
                                                                const artifact::Metadata &metadata) {
  if (!device.getDriver().tensorMapEncodeTiled)
    return invalidArgument(llvm::formatv("kernel '{0}': expected a driver for CUDA 12.0 or later (because it encodes "
                                         "tensor maps), got one that has no cuTensorMapEncodeTiled",
                                         metadata.name));
  std::unique_ptr<CudaTensorMaps> maps(new CudaTensorMaps(device, metadata));
  ErrorOr<cuda::Address> nothing = device.getEmptyArray();
  if (!nothing.ok())
    return nothing.getStatus();
  maps->nothing = *nothing;
  return maps;
}

CudaTensorMaps::CudaTensorMaps(CudaDevice &device, const artifact::Metadata &metadata)
    : device(device), arguments(metadata.arguments), maps(metadata.cuda->tensorMaps), entries(fewestEntries) {}

void CudaTensorMaps::placeAt(const std::vector<size_t> &offsets) {
  for (size_t i = 0; i < maps.size(); ++i)
    maps[i].offset = uint32_t(offsets[i]);
}

//===-- Inputs of a map ------------------------------------------------------------------------------------------===//

Status CudaTensorMaps::refuse(const TensorMapSpec::Number *number, uint32_t argument,
                              const std::string &message) const {
  std::string what = number && number->argument < 0
                         ? "a descriptor of array '" + arguments[argument].name + "'"
                         : "argument '" + arguments[number ? uint32_t(number->argument) : argument].name + "'";
  return invalidArgument(what + ": " + message);
}

static int64_t valueOf(const TensorMapSpec::Number &number, const std::vector<artifact::ArgumentSpec> &arguments,
                       const char *parameters) {
  if (number.argument < 0)
    return number.constant;
  return artifact::readInteger(arguments[number.argument], parameters, number.isUnsigned);
}

Status CudaTensorMaps::read(const TensorMapSpec &map, const char *parameters, Inputs &inputs) const {
  const unsigned rank = map.rank(), bytes = artifact::getBytes(map.element);
  const artifact::ArgumentSpec &array = arguments[map.base];
  std::memcpy(&inputs.base, parameters + array.offset, sizeof inputs.base);
  // A null base means an array without elements.
  bool isEmpty = inputs.base == 0;
  for (unsigned i = 0; i < rank; ++i) {
    const TensorMapSpec::Number &number = map.shape[rank - 1 - i];
    int64_t size = valueOf(number, arguments, parameters);
    isEmpty |= size == 0;
    if (uint64_t(size) > mostSize)
      return refuse(
          &number, map.base,
          llvm::formatv("expected an extent of 0 to 2^32 (because the copy engine supports no larger one), got {0}",
                        size));
    inputs.sizes[i] = uint64_t(size);
  }
  if (isEmpty) {
    // The driver rejects empty arrays. A single element at an address of ours stands for it: it reads like the outside
    // of any array, and no kernel reads what is written there.
    inputs.base = nothing + (array.written    ? CudaDevice::emptySink
                             : map.nanPadding ? CudaDevice::emptyNan
                                              : CudaDevice::emptyZeros);
    for (unsigned i = 0; i < rank; ++i)
      inputs.sizes[i] = 1;
    for (unsigned i = 0; i + 1 < rank; ++i)
      inputs.strides[i] = strideAlign;
    return {};
  }
  if (inputs.base % baseAlign)
    return refuse(
        nullptr, map.base,
        llvm::formatv(
            "expected an address that is a multiple of 16 (because the copy engine needs that alignment), got {0:x}",
            inputs.base));
  for (unsigned i = 0; i + 1 < rank; ++i) {
    const TensorMapSpec::Number &number = map.strides[rank - 2 - i];
    int64_t stride = valueOf(number, arguments, parameters);
    if (uint64_t(stride) >= endOfStrides / bytes)
      return refuse(
          &number, map.base,
          llvm::formatv(
              "expected a stride of 0 to 2^40 bytes (because the copy engine supports no larger one), got {0} "
              "elements of {1} bytes",
              stride, bytes));
    inputs.strides[i] = uint64_t(stride) * bytes;
    if (inputs.strides[i] % strideAlign)
      return refuse(&number, map.base,
                    llvm::formatv("expected a stride that is a multiple of 16 bytes (because the copy engine needs "
                                  "aligned rows), got {0} elements of {1} bytes",
                                  stride, bytes));
  }
  return {};
}

//===-- Encoding -------------------------------------------------------------------------------------------------===//

static cuda::TensorMapType typeOf(ElementType element) {
  using cuda::TensorMapType;
  switch (element) {
  case ElementType::FP16:
    return TensorMapType::F16;
  case ElementType::BF16:
    return TensorMapType::Bf16;
  case ElementType::FP32:
    return TensorMapType::F32;
  case ElementType::FP64:
    return TensorMapType::F64;
  default:
    break;
  }
  switch (artifact::getBytes(element)) {
  case 1:
    return TensorMapType::U8;
  case 2:
    return TensorMapType::U16;
  case 4:
    return TensorMapType::U32;
  default:
    return TensorMapType::U64;
  }
}

Status CudaTensorMaps::encode(const TensorMapSpec &map, const Inputs &inputs, unsigned char *bytes) const {
  // The driver checks whose memory it is, and a thread that has launched nothing yet has no context.
  CudaDevice::Scope scope(device);
  const unsigned rank = map.rank();
  uint32_t box[5], steps[5];
  for (unsigned i = 0; i < rank; ++i) {
    box[i] = uint32_t(map.box[rank - 1 - i]);
    steps[i] = 1;
  }
  auto swizzle = map.swizzle == 128  ? cuda::TensorMapSwizzle::Bytes128
                 : map.swizzle == 64 ? cuda::TensorMapSwizzle::Bytes64
                 : map.swizzle == 32 ? cuda::TensorMapSwizzle::Bytes32
                                     : cuda::TensorMapSwizzle::None;
  // If rows are long enough to use it, a miss also fetches the following line.
  auto promotion = map.box.back() * artifact::getBytes(map.element) >= 128 ? cuda::TensorMapPromotion::Bytes256
                                                                           : cuda::TensorMapPromotion::Bytes128;
  cuda::Result result = device.getDriver().tensorMapEncodeTiled(
      bytes, typeOf(map.element), rank, reinterpret_cast<void *>(inputs.base), inputs.sizes.data(),
      inputs.strides.data(), box, steps, cuda::TensorMapInterleave::None, swizzle, promotion,
      map.nanPadding ? cuda::TensorMapFill::Nan : cuda::TensorMapFill::Zeros);
  if (!result)
    return {};
  std::string sizes, strides;
  for (unsigned i = rank; i-- > 0;)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(inputs.sizes[i]);
  for (unsigned i = rank - 1; i-- > 0;)
    strides += (strides.empty() ? "" : ", ") + std::to_string(inputs.strides[i]);
  return device.fail(llvm::formatv("describe array '{0}' of shape [{1}] at {2:x}, with strides of [{3}] bytes, to the "
                                   "copy engine",
                                   arguments[map.base].name, sizes, inputs.base, strides),
                     result);
}

//===-- Encoded maps ---------------------------------------------------------------------------------------------===//

uint64_t CudaTensorMaps::hash(unsigned map, const Inputs &inputs) {
  uint64_t value = map;
  auto add = [&](uint64_t part) {
    value = (value ^ part) * 0x9e3779b97f4a7c15u;
    value ^= value >> 32;
  };
  add(inputs.base);
  for (uint64_t size : inputs.sizes)
    add(size);
  for (uint64_t stride : inputs.strides)
    add(stride);
  return value;
}

void CudaTensorMaps::grow() {
  std::vector<Entry> before(2 * entries.size());
  before.swap(entries);
  for (const Entry &entry : before)
    if (entry.map != ~0u)
      place(entry.map, entry.inputs) = entry;
}

Status CudaTensorMaps::fill(char *parameters) {
  for (unsigned i = 0; i < maps.size(); ++i) {
    Inputs inputs;
    if (Status status = read(maps[i], parameters, inputs); !status.ok())
      return status;
    std::lock_guard<std::mutex> lock(mutex);
    Entry *entry = &place(i, inputs);
    if (entry->map != i || !(entry->inputs == inputs)) {
      // Grow rather than overwrite, so that arrays that alternate, such as the weights of layers, keep their entries.
      while (entry->map != ~0u && entries.size() < mostEntries) {
        grow();
        entry = &place(i, inputs);
      }
      Entry made;
      if (Status status = encode(maps[i], inputs, made.bytes); !status.ok())
        return status;
      made.inputs = inputs;
      made.map = i;
      *entry = made;
    }
    std::memcpy(parameters + maps[i].offset, entry->bytes, sizeof entry->bytes);
  }
  return {};
}
