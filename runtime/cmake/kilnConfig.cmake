# find_package(kiln) defines the target kiln::runtime, which exported kernels link. This file is in the package's folder
# `cmake`, next to `include` and `lib`; `kiln config --cmake-dir` prints its path.
get_filename_component(kiln_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT TARGET kiln::runtime)
  # Global: an exported folder finds the package, and programs outside that folder link its targets.
  add_library(kiln::runtime SHARED IMPORTED GLOBAL)
  set_target_properties(kiln::runtime PROPERTIES
    IMPORTED_LOCATION "${kiln_root}/lib/libkiln_runtime.so"
    IMPORTED_SONAME "libkiln_runtime.so"
    INTERFACE_INCLUDE_DIRECTORIES "${kiln_root}/include")
endif()
unset(kiln_root)
