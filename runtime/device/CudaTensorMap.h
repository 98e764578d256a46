// Tensor maps of a kernel: 128 bytes each that tell the copy engine how an array lies in memory. The driver encodes
// them from the arguments of a launch, and what it encoded is kept for the next launch with the same ones.
#pragma once
#include "runtime/device/CudaDevice.h"
#include <array>

namespace kiln::device {

class CudaTensorMaps {
public:
  /// What the metadata asks for; an error where the driver encodes no maps.
  static ErrorOr<std::unique_ptr<CudaTensorMaps>> create(CudaDevice &device, const artifact::Metadata &metadata);

  /// The places of the maps among the parameters, where those are others than the metadata's.
  void placeAt(const std::vector<size_t> &offsets);

  /// Writes every map to its place among `parameters`, which start with the packed arguments. What the driver cannot
  /// encode is an error that names the argument. Safe from several threads; allocates nothing for maps made before.
  Status fill(char *parameters);

private:
  /// All that a map depends on and the metadata does not fix. Innermost dimension first.
  struct Inputs {
    uint64_t base = 0;
    std::array<uint64_t, 5> sizes{};
    std::array<uint64_t, 4> strides{}; ///< in bytes, of all dimensions but the innermost
    bool operator==(const Inputs &other) const {
      return base == other.base && sizes == other.sizes && strides == other.strides;
    }
  };
  struct alignas(artifact::kTensorMapAlign) Entry {
    unsigned char bytes[artifact::kTensorMapBytes];
    Inputs inputs;
    unsigned map = ~0u; ///< which of the kernel's; none: an unused entry
  };

  CudaTensorMaps(CudaDevice &device, const artifact::Metadata &metadata);
  Status read(const artifact::TensorMapSpec &map, const char *parameters, Inputs &inputs) const;
  Status encode(const artifact::TensorMapSpec &map, const Inputs &inputs, unsigned char *bytes) const;
  Status refuse(const artifact::TensorMapSpec::Number *number, uint32_t argument, const std::string &message) const;
  static uint64_t hash(unsigned map, const Inputs &inputs);
  Entry &place(unsigned map, const Inputs &inputs) { return entries[hash(map, inputs) % entries.size()]; }
  void grow();

  CudaDevice &device;
  cuda::Address nothing = 0;
  std::vector<artifact::ArgumentSpec> arguments;
  std::vector<artifact::TensorMapSpec> maps;
  std::mutex mutex;           ///< of what follows
  std::vector<Entry> entries; ///< each at the place of its hash
};

} // namespace kiln::device
