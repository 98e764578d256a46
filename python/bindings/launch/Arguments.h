// From Python values to an encoded call: numbers, arrays of every library that describes its memory, descriptors,
// tuples, constants. Plain CPython API, because this is the fast path of every launch.
#pragma once
#include "runtime/launch/Monitor.h"
#include "runtime/launch/Specialize.h"
#include "llvm/ADT/STLExtras.h"
#include <pybind11/pybind11.h>

namespace kiln::python {

/// By storage, from its first byte to behind its last: whether it overlaps no other.
llvm::SmallVector<bool, 16> findDisjoint(llvm::ArrayRef<std::pair<uintptr_t, uintptr_t>> storages);

/// The bytes that an array with these strides reaches.
void setBounds(uintptr_t address, int rank, const int64_t *shape, const int64_t *byteStrides, int64_t itemBytes,
               uintptr_t &begin, uintptr_t &end);

/// What the class of a tuple says about its items: found once, because named tuples and structs come with every launch.
struct TupleClass {
  llvm::SmallVector<std::string, 8> names; ///< of the fields; none for a plain tuple
  std::string joined;                      ///< the names with commas; empty for a struct, whose class knows them
  int64_t id = 0;                          ///< of a struct: what its class is called in keys
  llvm::SmallVector<bool, 8> isConstexpr;  ///< of a struct, by field
  llvm::SmallVector<bool, 8> isStride;     ///< of a struct, by field: its methods make strides of descriptors of it
};
/// That of a tuple; lives for ever. Null with a Python error set.
const TupleClass *findTupleClass(PyObject *value);

/// Which machine a launch may go to.
struct PlacementRule {
  /// Arrays decide: on a CUDA device there, else the CPU. `cuda`: a GPU, whatever the arrays.
  bool cuda = false;
  bool stage = false; ///< arrays of the host are copied to the GPU and back
};

/// Where the memory of an array is: a CUDA device, or one of these.
constexpr int onHost = -1, onNothing = -2; ///< nothing: it only stands for its type, or is empty

/// Encodes the values of one call. Holds what must stay alive until the launch has ended.
class ArgumentReader {
public:
  /// `collectExtents`: also note the storage behind each array, for the checks.
  ArgumentReader(bool collectExtents, PlacementRule placement) : collectExtents(collectExtents), placement(placement) {}

  /// Encodes the value of a parameter that is not constexpr. False leaves a sentence in `problem` ("expected …, got
  /// …"), or a Python error set if the value's own code raised.
  bool addValue(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);

  /// Encodes a value the code is compiled for.
  bool addConstant(launch::CallEncoder &encoder, PyObject *value);

  /// Reads an array for its address alone.
  bool addAddress(PyObject *value, const void *&address);

  /// For each array read so far, in order: whether its storage is known and overlaps that of no other array, so that no
  /// valid access through another array reaches it.
  llvm::SmallVector<bool, 16> findDisjoint() const { return python::findDisjoint(storages); }

  /// An array that was read: where its memory is.
  struct Array {
    const void *address;
    uintptr_t begin, end; ///< of the storage; 0 and UINTPTR_MAX when nobody knows
    int device;
    PyObject *tensor; ///< of torch, or null
  };
  Array getArray(unsigned array) const {
    return {addresses[array], storages[array].first, storages[array].second, devices[array], tensors[array]};
  }
  unsigned countArrays() const { return unsigned(storages.size()); }
  bool isReadOnly(unsigned array) const { return llvm::is_contained(readOnly, array); }

  /// The first array that may not be written though `metadata` says the code writes it: the name of its argument, or
  /// empty.
  llvm::StringRef findReadOnly(const artifact::Metadata &metadata) const;

  /// Says whether every array has memory for its elements. If one has not, false, with `problem`, and `culprit` the
  /// parameter of the array.
  bool haveData();

  /// Counts a write to each tensor of torch that `metadata` says the code writes.
  void countWrites(const artifact::Metadata &metadata) const;

  /// Decides where the launch goes from where its arrays are: a CUDA device's number, `onHost`, or `onNothing` for a
  /// launch on any GPU. If they do not fit together, false, with `problem`, and `culprit` the parameter of the array.
  bool resolveDevice(int &device);

  /// Whether the array with this number, in order, is copied to the device for the launch.
  bool isStaged(unsigned array) const { return placement.stage && devices[array] == onHost; }
  /// Whether the launch is one of a program of the host, which waits for it: unless all its arrays are on the device.
  bool isStaged() const { return placement.stage && (devices.empty() || llvm::is_contained(devices, int(onHost))); }

  unsigned parameter = 0; ///< whose value is being read: set by the caller
  unsigned culprit = 0;
  std::string problem;
  std::string hint;
  std::vector<launch::BufferExtent> extents;              ///< by array
  llvm::SmallVector<std::pair<int, void *>, 0> producers; ///< streams that arrays must be waited for on, by device
  llvm::SmallVector<pybind11::object, 2> alive; ///< what arrays lie in that nobody else may keep until the launch

private:
  bool fail(std::string message, std::string likelyFix = "");
  bool addInteger(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);
  bool addTuple(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);
  bool addDescriptor(launch::CallEncoder &encoder, const launch::ParameterRule &rule, PyObject *value);

  struct Memory {
    artifact::ElementType element;
    void *address = nullptr;
    bool writable = true;
    uintptr_t begin = 0, end = UINTPTR_MAX; ///< of the storage; as here when nobody knows
    uintptr_t viewBegin = 1, viewEnd = 0;   ///< what sizes and strides reach; as here when nobody knows
    int device = onHost;
    bool missing = false;       ///< there are elements, but no memory holds them
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
  llvm::SmallVector<unsigned, 16> parameters;                      ///< by array: the parameter it came for
  llvm::SmallVector<std::pair<uintptr_t, uintptr_t>, 16> storages; ///< by array
  llvm::SmallVector<PyObject *, 16> tensors;                       ///< by array: of torch, or null
  std::optional<unsigned> dataless;                                ///< the parameter of an array without data
  llvm::SmallVector<unsigned, 4> readOnly;                         ///< arrays that may not be written
};

/// A decoded specialisation as the nested tuples `kiln.runtime.jit` reads: ("constexpr", value),
/// ("runtime", type, divisible, padding, divisor, whole rows) or ("tuple", items, fields, the class of a struct or
/// None).
pybind11::object toPython(const launch::Specialization &specialization);

/// The object a constant of kind Object stands for.
pybind11::object getConstantObject(int64_t id);

} // namespace kiln::python
