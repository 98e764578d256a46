// Encodes the Python values of a call: numbers, arrays of every library that describes its memory, descriptors, tuples,
// constants. Uses the plain CPython API, because this is the fast path of every launch.
#pragma once
#include "runtime/launch/Monitor.h"
#include "runtime/launch/Specialize.h"
#include "llvm/ADT/STLExtras.h"
#include <pybind11/pybind11.h>

namespace kiln::python {

/// For each storage, as [begin, end): whether it overlaps no other.
llvm::SmallVector<bool, 16> findDisjoint(llvm::ArrayRef<std::pair<uintptr_t, uintptr_t>> storages);

/// The bytes that an array with these strides reaches.
void setBounds(uintptr_t address, int rank, const int64_t *shape, const int64_t *byteStrides, int64_t itemBytes,
               uintptr_t &begin, uintptr_t &end);

/// The properties of a tuple's class: computed once, because every launch may pass named tuples and structs.
struct TupleClass {
  llvm::SmallVector<std::string, 8> names; ///< of the fields; none for a plain tuple
  std::string joined;                      ///< the names with commas; empty for a struct, whose class knows them
  int64_t id = 0;                          ///< for a struct: the id of its class in keys
  llvm::SmallVector<bool, 8> isConstexpr;  ///< of a struct, by field
  llvm::SmallVector<bool, 8> isStride; ///< for a struct, by field: its methods compute strides of descriptors from it
};
/// The class of a tuple; never freed. Null with a Python error set.
const TupleClass *findTupleClass(PyObject *value);

/// Where a launch may run.
struct PlacementRule {
  /// If false, the arrays decide: the CUDA device that holds them, else the CPU. If true, a GPU regardless of arrays.
  bool cuda = false;
  bool stage = false; ///< host arrays are copied to the GPU and back
};

/// Where the memory of an array is: a CUDA device, or one of these.
constexpr int onHost = -1, onNothing = -2; ///< onNothing: it is empty, or only stands for its type

/// Encodes the values of one call. Holds references to everything that must stay alive until the launch has ended.
class ArgumentReader {
public:
  /// `collectExtents`: also note the storage behind each array, for the checks.
  ArgumentReader(bool collectExtents, PlacementRule placement) : collectExtents(collectExtents), placement(placement) {}

  /// Encodes the value of a parameter that is not constexpr. On failure returns false, with a message in `problem`
  /// ("expected …, got …"), or with a Python error set if the value's own code raised.
  bool addValue(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);

  /// Encodes a constexpr value.
  bool addConstant(launch::CallEncoder &encoder, PyObject *value);

  /// Reads only the address of an array.
  bool addAddress(PyObject *value, const void *&address);

  /// For each array read so far, in order: whether its storage is known and overlaps that of no other array, so that no
  /// valid access through another array reaches it.
  llvm::SmallVector<bool, 16> findDisjoint() const { return python::findDisjoint(storages); }

  /// The memory of an array that was read.
  struct Array {
    const void *address;
    uintptr_t begin, end; ///< of the storage; 0 and UINTPTR_MAX if unknown
    int device;
    PyObject *tensor; ///< of torch, or null
  };
  Array getArray(unsigned array) const {
    return {addresses[array], storages[array].first, storages[array].second, devices[array], tensors[array]};
  }
  unsigned countArrays() const { return unsigned(storages.size()); }
  bool isReadOnly(unsigned array) const { return llvm::is_contained(readOnly, array); }

  /// The argument name of the first read-only array that the code writes, according to `metadata`; empty if none.
  llvm::StringRef findReadOnly(const artifact::Metadata &metadata) const;

  /// Whether every array has memory for its elements. If one has not, returns false, with `problem` set and `culprit`
  /// the array's parameter.
  bool haveData();

  /// Counts a write to each torch tensor that the code writes, according to `metadata`.
  void countWrites(const artifact::Metadata &metadata) const;

  /// Decides from the arrays' places where the launch runs: a CUDA device's number, `onHost`, or `onNothing` for any
  /// GPU. If the arrays conflict, returns false, with `problem` set and `culprit` the array's parameter.
  bool resolveDevice(int &device);

  /// Whether the array with this index is copied to the device for the launch.
  bool isStaged(unsigned array) const { return placement.stage && devices[array] == onHost; }
  /// Whether the launch is staged, and the host waits for it: true unless all its arrays are on the device.
  bool isStaged() const { return placement.stage && (devices.empty() || llvm::is_contained(devices, int(onHost))); }

  unsigned parameter = 0; ///< whose value is being read: set by the caller
  unsigned culprit = 0;
  std::string problem;
  std::string hint;
  std::vector<launch::BufferExtent> extents;              ///< by array
  llvm::SmallVector<std::pair<int, void *>, 0> producers; ///< streams on which arrays are produced, by device
  llvm::SmallVector<pybind11::object, 2>
      alive; ///< owners of arrays' memory that might otherwise be freed before the launch

private:
  bool fail(std::string message, std::string likelyFix = "");
  bool addInteger(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);
  bool addTuple(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);
  bool addDescriptor(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);

  struct Memory {
    artifact::ElementType element;
    void *address = nullptr;
    bool writable = true;
    uintptr_t begin = 0, end = UINTPTR_MAX; ///< of the storage; these values if unknown
    uintptr_t viewBegin = 1, viewEnd = 0;   ///< the range that sizes and strides reach; these values if unknown
    int device = onHost;
    bool missing = false;       ///< it has elements, but no memory for them
    PyObject *tensor = nullptr; ///< of torch
  };
  bool readArray(PyObject *value, Memory &memory);
  bool readNumpy(PyObject *value, Memory &memory);
  bool refuseTorch(PyObject *value);
  bool readTorch(PyObject *value, Memory &memory);
  bool readTorchSlowly(PyObject *value, Memory &memory);
  bool readInterface(PyObject *value, Memory &memory);
  bool readCudaInterface(PyObject *value, Memory &memory);
  bool readInterfaceShape(const pybind11::dict &interface, Memory &memory);
  bool readDlpack(PyObject *value, Memory &memory);
  bool finishArray(const launch::ParameterRule &rule, const Memory &memory);

  bool collectExtents;
  PlacementRule placement;
  llvm::SmallVector<int, 16> devices;                              ///< by array
  llvm::SmallVector<const void *, 16> addresses;                   ///< by array
  llvm::SmallVector<unsigned, 16> parameters;                      ///< by array: its parameter
  llvm::SmallVector<std::pair<uintptr_t, uintptr_t>, 16> storages; ///< by array
  llvm::SmallVector<PyObject *, 16> tensors;                       ///< by array: of torch, or null
  std::optional<unsigned> dataless;                                ///< the parameter of an array without data
  llvm::SmallVector<unsigned, 4> readOnly;                         ///< arrays that may not be written
};

/// The decoded specialisation of a parameter as `kiln.frontend.signature.Parameter`.
pybind11::object toPython(const launch::Specialization &specialization, const std::string &name);

/// The object of a constant of kind Object.
pybind11::object getConstantObject(int64_t id);

} // namespace kiln::python
