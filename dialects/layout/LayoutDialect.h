// The layout dialect and its attribute; access to the layout in a tensor's type.
#pragma once
#include "dialects/layout/Layout.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/TensorEncoding.h"

#include "dialects/layout/LayoutDialect.h.inc"

namespace kiln::layout::detail {
struct MapAttrStorage;
} // namespace kiln::layout::detail

#define GET_ATTRDEF_CLASSES
#include "dialects/layout/LayoutAttrs.h.inc"

namespace kiln::layout {

/// True when the tensor's encoding is a layout.
bool hasLayout(mlir::RankedTensorType type);
/// The layout of a tensor that has one.
const Layout &getLayout(mlir::RankedTensorType type);
/// The layout of a value whose type is a tensor that has one.
const Layout &getLayout(mlir::Value value);
/// The same tensor type with this layout, which must have the type's shape.
mlir::RankedTensorType withLayout(mlir::RankedTensorType type, const Layout &layout);
/// The same tensor without a layout.
mlir::RankedTensorType withoutLayout(mlir::RankedTensorType type);

} // namespace kiln::layout
