// kiln._kiln.CallCache: records the launches of a library function, and repeats them for further arguments of the same
// kind without running the function.
//
// A function's checks, plan and grid depend on these properties of its arguments: types, shapes, strides, alignment,
// overlap of their memory, and the values of those that are not arrays. They form the key; two calls with one key
// differ only in addresses. A call whose key has been seen before is recorded: its launches, each with its packed block
// and the array that each address in it belongs to, the outputs it allocates, and what it returns. From then on, such a
// call allocates the outputs, writes the addresses and launches.
//
// The function runs whenever something may differ that is not in the key: an argument is of a class that cannot be read
// completely (tensors of other classes, arrays by their interface, lists), a tensor requires a gradient that is
// recorded, torch's dispatch modes are active, launches are hooked, checked or staged, or a recorded launch has an
// address that belongs to no argument and no output. Code is repeated only while a launch would find it: see
// LaunchRecord::isCurrent.
#pragma once
#include <pybind11/pybind11.h>

namespace kiln::python {

void bindReplay(pybind11::module_ &m);

/// Whether every library function must really run, because its launches are being observed.
bool areCallsPaused();

} // namespace kiln::python
