// Reads torch tensors without calling torch's Python methods. libtorch exports a C interface with a stable ABI for code
// that is not linked to it; the functions are looked up in the library that `import torch` has loaded. A query that
// takes a microsecond in Python takes some ten nanoseconds this way. If any function is missing, or the tensor's class
// is implemented in Python, the functions here fail and the caller asks Python.
#pragma once
#include "runtime/artifact/ElementType.h"
#include "llvm/ADT/SmallVector.h"
#include <Python.h>
#include <cstdint>
#include <optional>

namespace kiln::python {

/// Where a tensor's memory is.
struct TorchMemory {
  void *address = nullptr;
  artifact::ElementType element = artifact::ElementType::I32;
  int device = -1;              ///< CUDA device, or -1 for the CPU
  uintptr_t begin = 0, end = 0; ///< of the storage
};

struct TorchTensor : TorchMemory {
  bool hasView = false;                 ///< whether the following two are known
  uintptr_t viewBegin = 0, viewEnd = 0; ///< the range that the tensor's sizes and strides reach
  int64_t rank = 0;
  const int64_t *sizes = nullptr, *strides = nullptr; ///< the tensor's own, as long as nobody changes it
};

/// What a tensor is, without its memory.
struct TorchKind {
  artifact::ElementType element = artifact::ElementType::I32;
  int device = -1; ///< CUDA device, or -1 for the CPU
};
/// As `readTorchTensor`.
bool readTorchKind(PyObject *tensor, TorchKind &result);

/// The tensor in an object of Python, for the functions that take one; null if it must be asked through Python. Objects
/// of one class have it at one distance from their address.
void *findTorchHandle(PyObject *tensor);
/// As `readTorchTensor`.
bool readTorchMemory(void *handle, TorchMemory &result);
/// The properties of a tensor that patterns compare, in torch's own encoding.
struct TorchLikeness {
  int32_t type = 0, kind = 0, index = 0; ///< of the elements; of the device
  uint32_t bytes = 0;                    ///< of an element
};
/// The likeness of a tensor that `readTorchMemory` can read; otherwise std::nullopt.
std::optional<TorchLikeness> findTorchLikeness(void *handle);

/// Where a tensor's memory is.
struct TorchPlace {
  uintptr_t address, begin, end; ///< the latter two of the storage
};
/// As `readTorchMemory`, for a tensor with this likeness; false if it has another one.
bool readTorchLike(void *handle, const TorchLikeness &like, TorchPlace &place);

/// Whether the tensor's storage covers the range of its sizes and strides; false if unknown.
bool isWhole(void *handle, const TorchMemory &memory);
bool isWhole(void *handle, const TorchPlace &place, artifact::ElementType element);
/// As below, for a handle; false where Python must do it.
bool countTorchWrite(void *handle);

/// Reads a tensor; false if it must be asked through Python. Sets no Python error. Under the interpreter lock.
bool readTorchTensor(PyObject *tensor, TorchTensor &result);

/// What `torch.empty` needs to make a tensor, in torch's own numbers.
struct TorchSpec {
  int32_t type = 0, kind = 0, index = 0; ///< of the elements; of the device
  llvm::SmallVector<int64_t, 6> sizes, strides;
};
/// That of a tensor; std::nullopt where Python must be asked.
std::optional<TorchSpec> readTorchSpec(PyObject *tensor);
/// Makes an uninitialised tensor. Null, with no Python error set, if Python must make it.
PyObject *makeTorch(const TorchSpec &spec);

/// The state of torch that matters for calls with tensors, beyond reading their memory.
struct TorchState {
  bool modes = false;   ///< dispatcher modes, which must see operators, are active on this thread
  bool records = false; ///< gradients are recorded
};
/// False where that cannot be told without Python.
bool readTorchState(TorchState &state);
/// Whether the tensor requires a gradient; std::nullopt where Python must be asked.
std::optional<bool> requiresGradient(PyObject *tensor);

/// Counts a write to a tensor, as torch's own in-place functions do, so that a backward pass that has saved the tensor
/// detects it.
void countWrite(PyObject *tensor);

/// The stream torch is queueing on, for this device; null (the legacy stream) where torch is not loaded.
void *getTorchStream(int device);

} // namespace kiln::python
