// The Python object whose launches a launcher makes: a jit function, or an object that stands in for one. What a
// launcher asks of it is a table of callables, `_kiln.LaunchOwner`, which is handed over when the launcher is made;
// _kiln.pyi has their types.
#pragma once
#include "python/bindings/Interpreter.h"
#include "runtime/support/Status.h"
#include <string>

namespace kiln::python {

/// The terms of an owner's launches, valid as long as every value of `watched` is the same object.
struct LaunchTerms {
  std::string prefix;             ///< what the code depends on besides its arguments
  pybind11::list watched;         ///< (holder, name, value)
  bool checksAccesses = false;    ///< the storage behind each array is noted
  bool cuda = false;              ///< the target is a GPU, regardless of the arrays
  bool stage = false;             ///< host arrays are copied there
  size_t limit = 0;               ///< specialisations that are kept; 0: any number
  bool describesPointers = false; ///< the default of the option `describe_pointers`
};

/// A request for code.
struct CodeRequest {
  pybind11::list parameters; ///< `Parameter`s
  pybind11::dict options;
  pybind11::bytes key;
  pybind11::list disjoint; ///< by array: no other array overlaps its storage
  int device;              ///< the GPU it is for, -1: the CPU, -2: it is only compiled
  std::string prefix;      ///< as the terms of the launch had it
};

/// Why a launch is refused, worded in Python: each raises, but `gridKey` only if the error is about the launch's
/// arguments, and `strides` warns.
struct Refusals {
  pybind11::function binding, argument, grid, gridKey, device, preparing, status, failure, strides;
};

class Owner {
public:
  Owner() = default;
  Owner(pybind11::object kernel, pybind11::function revalidate, pybind11::function compile, pybind11::function forget,
        pybind11::function refusals)
      : kernel(std::move(kernel)), revalidateTerms(std::move(revalidate)), compileCode(std::move(compile)),
        forgetCode(std::move(forget)), makeRefusals(std::move(refusals)) {}
  /// The object itself, for its attributes.
  PyObject *get() const { return kernel.ptr(); }
  int traverse(visitproc visit, void *arg) const;

  LaunchTerms revalidate() const;
  /// The compiled kernel, whose `loaded` is the code (None where it is only compiled).
  pybind11::object compile(const CodeRequest &request) const;
  /// The launcher has dropped it.
  void forget(const pybind11::object &compiled) const;

  // Each of these throws error_already_set.
  [[noreturn]] void refuseBinding(const pybind11::tuple &args, const pybind11::dict &named) const;
  [[noreturn]] void refuseArgument(pybind11::handle name, pybind11::handle value, const std::string &message,
                                   const std::string &hint) const;
  [[noreturn]] void refuseGrid(pybind11::handle grid, const std::string &message) const;
  [[noreturn]] void refuseDevice(const std::string &message) const;
  [[noreturn]] void refusePreparing() const;
  [[noreturn]] void refuseStatus(const pybind11::object &compiled, const Status &status) const;
  /// A program instance stopped.
  [[noreturn]] void raiseFailure(const pybind11::dict &what) const;
  /// Explains a KeyError of a grid function; returns if it is not about the launch's arguments.
  void explainGridKey(pybind11::handle error, const pybind11::dict &arguments) const;
  void warnOfStrides(pybind11::handle name, pybind11::handle value) const;

private:
  Refusals findRefusals() const { return makeRefusals().cast<Refusals>(); }
  template <typename... Arguments>
  [[noreturn]] void refuse(pybind11::function Refusals::*how, const Arguments &...arguments) const;

  pybind11::object kernel; ///< which owns the launcher in turn, see its clear()
  pybind11::function revalidateTerms, compileCode, forgetCode;
  pybind11::function makeRefusals; ///< called for each refusal, so that launches that work never load their wording
};

void bindOwner(pybind11::module_ &m);

} // namespace kiln::python
