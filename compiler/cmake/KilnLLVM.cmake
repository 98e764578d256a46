# Finds the distribution's LLVM/MLIR and describes its *static archives* as one interface target.
#
# The packages' exported MLIR targets pull in the shared libLLVM (and libz3) through their link interfaces. Therefore the
# archives are listed as plain files in one link group; two copies of LLVM in a process would have two sets of type ids.
# As a requested version, LLVM accepts only an exact major.minor, so the major number is checked after it is found.
find_package(MLIR REQUIRED CONFIG
  PATHS /usr/lib/llvm-${KILN_LLVM_VERSION}/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL KILN_LLVM_VERSION)
  message(FATAL_ERROR "Kiln needs LLVM ${KILN_LLVM_VERSION}, found ${LLVM_VERSION_MAJOR} in ${LLVM_DIR}")
endif()
find_package(ZLIB REQUIRED)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

get_filename_component(KILN_LLVM_LIBDIR "${LLVM_LIBRARY_DIR}" ABSOLUTE)
file(GLOB KILN_MLIR_ARCHIVES "${KILN_LLVM_LIBDIR}/libMLIR*.a")
list(FILTER KILN_MLIR_ARCHIVES EXCLUDE REGEX
  "CAPI|Test|ExecutionEngine|mlir_|Lsp|Spirv|SPIRV|ROCDL|XeGPU|XeVM|Tosa|TOSA|WasmSSA|EmitC|Emitc|Reduce|Query|Pdll|PDLL|JitRunner|TblgenLib|TableGen|OpenACC|OpenMP|AMX|ArmSME|ArmSVE|ArmNeon|Quant|MLProgram|Shard|Smt|SMT")
file(GLOB KILN_LLVM_ARCHIVES "${KILN_LLVM_LIBDIR}/libLLVM*.a")
list(FILTER KILN_LLVM_ARCHIVES EXCLUDE REGEX
  "LLVM(AArch64|AMDGPU|ARM|AVR|BPF|Hexagon|Lanai|LoongArch|MSP430|Mips|PowerPC|RISCV|Sparc|SystemZ|VE|WebAssembly|XCore|M68k|SPIRV|Xtensa|CSKY|ARC|DirectX)|Exegesis|FuzzMutate|FuzzerCLI|LLVMgold|LLVMTableGen|LLVMDTLTO|LLVMLTO|DWP|DebuginfoD|Debuginfod|LineEditor|XRay|LibDriver|DlltoolDriver")

add_library(kiln_llvm INTERFACE)
target_include_directories(kiln_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(kiln_llvm INTERFACE
  -Wl,--start-group ${KILN_MLIR_ARCHIVES} ${KILN_LLVM_ARCHIVES} -Wl,--end-group
  libz.a libzstd.a m dl pthread)
target_link_options(kiln_llvm INTERFACE -fuse-ld=lld -Wl,--gc-sections -Wl,-O1)
