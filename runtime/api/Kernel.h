// An exported kernel: its variants, and for each device that it has been launched on, the variants that run there.
#pragma once
#include "kiln/runtime.h"
#include "runtime/device/Device.h"
#include "runtime/launch/Dispatch.h"
#include <array>
#include <atomic>
#include <mutex>

/// The object that the handle of kiln/runtime.h points to. Reference-counted; starts with one owner.
struct kiln_kernel {
  using Status = kiln::Status;
  template <typename T> using ErrorOr = kiln::ErrorOr<T>;

  static ErrorOr<kiln_kernel *> create(const kiln_export &source);
  void retain() { owners.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

  Status prepare(int32_t device);
  Status launch(kiln_stream stream, kiln_grid grid, llvm::ArrayRef<kiln_argument> arguments);

private:
  /// One variant of the export.
  struct Variant {
    const kiln_variant *source;
    kiln::artifact::Metadata metadata;
    std::vector<kiln::launch::Specialization> parameters;
  };
  /// How a parameter's arguments are examined: for the facts that some variant states of it.
  struct Parameter {
    kiln::launch::ParameterRule rule;
    bool isConstant = false; ///< a constant in every variant
    bool mayBeNone = false;  ///< a null pointer means None
    bool hasDescriptor = false;
    llvm::SmallVector<int64_t, 4> block; ///< for descriptors: from the first variant that has one
    bool nanPadding = false;
  };
  /// The code of one variant on one device, loaded on first use.
  struct Slot {
    std::mutex mutex; ///< held while loading
    std::shared_ptr<kiln::device::LoadedKernel> owner;
    std::atomic<kiln::device::LoadedKernel *> kernel{nullptr};
  };
  /// The variants that run on one device.
  struct Table {
    Table(std::vector<unsigned> chosen, std::vector<kiln::launch::Dispatcher::Variant> variants)
        : chosen(std::move(chosen)), dispatcher(std::move(variants)), slots(this->chosen.size()) {}
    std::vector<unsigned> chosen; ///< for each variant of the dispatcher, its index in the export
    kiln::launch::Dispatcher dispatcher;
    std::vector<Slot> slots;
  };

  explicit kiln_kernel(const kiln_export &source) : source(source) {}
  ~kiln_kernel();
  Status read();
  Status readParameter(size_t index);
  ErrorOr<Table *> getTable(int32_t device);
  ErrorOr<std::vector<unsigned>> chooseVariants(int32_t device) const;
  ErrorOr<kiln::device::LoadedKernel *> load(Table &table, unsigned index, int32_t device);
  Status encode(kiln::launch::CallEncoder &encoder, llvm::ArrayRef<kiln_argument> arguments,
                const kiln::launch::Dispatcher::Variant *variant) const;
  Status encodeOne(kiln::launch::CallEncoder &encoder, size_t index, const kiln_argument &argument,
                   const kiln::launch::Specialization *code) const;
  Status refuse(size_t parameter, const std::string &problem) const;

  static constexpr int mostDevices = 64;
  const kiln_export &source;
  std::atomic<int64_t> owners{1};
  std::vector<std::string> names;
  std::vector<Variant> variants;
  std::vector<Parameter> parameters;
  std::mutex mutex;                                           ///< held while a table is created
  std::array<std::atomic<Table *>, mostDevices + 1> tables{}; ///< per device, the CPU first
};
