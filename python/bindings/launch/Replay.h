// kiln._kiln.CallCache: what a library function launched for arguments of one kind, launched again for others of that
// kind without running the function.
//
// A function's checks, its plan and its grid follow from what its arguments are: types, shapes, strides, alignment,
// where their memory overlaps, the values of those that are no arrays. All of that is the key; what differs between two
// calls with one key is the addresses. A call whose key has been seen before is recorded: the launches it makes, each
// with its packed block and the array that each address in it belongs to, the outputs it makes, and what it returns.
// From then on such a call makes the outputs, writes the addresses and launches.
//
// Calls go the long way whenever something may be different that the key does not hold: an argument is of a class that
// is not known to be read to the end (tensors of other classes, arrays by their interface, lists), a tensor requires a
// gradient that is recorded, torch's dispatch modes look on, launches are hooked or checked or staged, a recorded
// launch has an address that belongs to no argument and no output. Code is launched as long as a launch would find it:
// see LaunchRecord::isCurrent.
#pragma once
#include <pybind11/pybind11.h>

namespace kiln::python {

void bindReplay(pybind11::module_ &m);

/// Whether somebody wants every function of the library to run: who looks at the launches that it makes.
bool areCallsPaused();

} // namespace kiln::python
