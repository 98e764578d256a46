# add_kiln_library, add_kiln_executable, kiln_tablegen_done: the only ways a leaf folder declares code.
#
# kiln_flags carries the include roots and warnings; kiln_pch is a precompiled header of the common MLIR headers, reused
# by every library that asks for it (a pass compiles in 2 s instead of 12).
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    CCACHE_NOHASHDIR=1 "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" ${CCACHE_PROGRAM})
endif()
set(CMAKE_PCH_INSTANTIATE_TEMPLATES ON)

add_library(kiln_flags INTERFACE)
target_include_directories(kiln_flags INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
target_compile_options(kiln_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -ffunction-sections -fdata-sections
  $<$<CXX_COMPILER_ID:Clang>:-Xclang -fno-pch-timestamp>)
if(KILN_SANITIZE)
  # LLVM's archives are not built with matching type information (vptr, function), and its allocators are not
  # instrumented.
  set(sanitize -fsanitize=${KILN_SANITIZE} -fno-sanitize=vptr,function)
  target_compile_options(kiln_flags INTERFACE ${sanitize} -fno-omit-frame-pointer -g1)
  target_link_options(kiln_flags INTERFACE ${sanitize})
endif()

# add_kiln_library(name [MLIR] SOURCES a.cpp ... [LINK lib ...])
# A static library. MLIR: uses MLIR/LLVM headers and the shared precompiled header.
function(add_kiln_library name)
  cmake_parse_arguments(ARG "MLIR;NO_PCH" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC kiln_flags ${ARG_LINK})
  if(ARG_MLIR)
    target_link_libraries(${name} PUBLIC kiln_llvm)
    add_dependencies(${name} kiln_tablegen_all)
    if(NOT ARG_NO_PCH)
      target_precompile_headers(${name} REUSE_FROM kiln_pch)
    endif()
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# add_kiln_executable(name [MLIR] SOURCES a.cpp ... [LINK lib ...])
# Compiled position-independent like the libraries (not as PIE), so that the precompiled header fits both.
function(add_kiln_executable name)
  cmake_parse_arguments(ARG "MLIR" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_link_libraries(${name} PRIVATE kiln_flags ${ARG_LINK})
  if(ARG_MLIR)
    add_dependencies(${name} kiln_tablegen_all)
    target_precompile_headers(${name} REUSE_FROM kiln_pch)
  endif()
endfunction()

add_custom_target(kiln_tablegen_all)
# kiln_tablegen_done(target): closes a block of mlir_tablegen() calls and orders it before every MLIR library.
macro(kiln_tablegen_done target)
  add_public_tablegen_target(${target})
  add_dependencies(kiln_tablegen_all ${target})
endmacro()
