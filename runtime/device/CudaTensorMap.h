// A kernel's tensor maps: 128 bytes each that tell the copy engine how an array lies in memory. The driver encodes them
// from a launch's arguments; encoded maps are kept for later launches with the same arguments.
#pragma once
#include "runtime/device/CudaDevice.h"
#include <array>

namespace kiln::device {

class CudaTensorMaps {
public:
  /// Creates the maps that the metadata asks for; an error if the driver cannot encode maps.
  static ErrorOr<std::unique_ptr<CudaTensorMaps>> create(CudaDevice &device, const artifact::Metadata &metadata);

  /// Sets the offsets of the maps among the parameters, where they differ from the metadata's.
  void placeAt(const std::vector<size_t> &offsets);

  /// Writes every map to its place in `parameters`, which start with the packed arguments. An array that the driver
  /// cannot encode gives an error that names the argument. Thread-safe; allocates nothing for maps encoded before.
  Status fill(char *parameters);

private:
  /// Everything that determines a map besides the metadata. Innermost dimension first.
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
    unsigned map = ~0u; ///< the number of the kernel's map; ~0: an unused entry
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
  std::mutex mutex;           ///< guards `entries`
  std::vector<Entry> entries; ///< a hash table
};

} // namespace kiln::device
