// The kgpu dialect, its types and enums. Include KgpuOps.h for the ops.
#pragma once
#include "dialects/kgpu/KgpuAttributes.h"
#include "dialects/layout/LayoutDialect.h"
#include "dialects/tile/TileDialect.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/kgpu/KgpuDialect.h.inc"
#include "dialects/kgpu/KgpuEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/kgpu/KgpuAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/kgpu/KgpuTypes.h.inc"

namespace kiln::kgpu {

/// The alignment of every allocation and of slots: that of the widest access.
constexpr int64_t kSharedAlign = 16;
/// The alignment of memory that the hardware swizzles by its address: the period of the widest swizzle.
constexpr int64_t kSwizzleAlign = 1024;
/// The alignment of memory that the copy engine accesses.
constexpr int64_t kCopyAlign = 128;

/// The layout of a tensor or memory type; the type has one (kgpu_c1, mem_c3).
const layout::Layout &layoutOf(mlir::Type type);

} // namespace kiln::kgpu
