// What Python holds of a key's fields.
#pragma once
#include "runtime/artifact/Key.h"
#include <vector>

namespace kiln::python {
struct PyFields {
  std::vector<kiln::artifact::KeyField> fields;
};
} // namespace kiln::python
