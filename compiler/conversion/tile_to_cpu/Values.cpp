// Maps values that are not tiles to the code emitted for them; see Values.h.
#include "compiler/conversion/tile_to_cpu/Values.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

Value Values::scalar(Value value) {
  auto found = scalars.find(value);
  if (found != scalars.end())
    return found->second;
  // Constants are materialised where they are used.
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return arith::ConstantOp::create(b, constant.getValue());
  llvm::report_fatal_error("tile-to-cpu: a scalar was used before it was emitted");
}

void Values::bind(tile::MakeDescOp op) {
  Descriptor desc;
  desc.base = scalar(op.getBase());
  for (Value side : op.getShape())
    desc.shape.push_back(scalar(side));
  for (Value stride : op.getStrides())
    desc.strides.push_back(scalar(stride));
  desc.padding = op.getPadding();
  descriptors[op.getResult()] = desc;
}

void Values::append(Value value, SmallVectorImpl<Value> &list) {
  if (isTile(value))
    return;
  if (!isa<tile::DescType>(value.getType())) {
    list.push_back(scalar(value));
    return;
  }
  const Descriptor &desc = descriptors.find(value)->second;
  list.push_back(desc.base);
  list.append(desc.shape);
  list.append(desc.strides);
}

void Values::bindFrom(Value value, ValueRange lowered, unsigned &next) {
  if (isTile(value))
    return;
  auto type = dyn_cast<tile::DescType>(value.getType());
  if (!type) {
    bind(value, lowered[next++]);
    return;
  }
  unsigned rank = type.getBlock().getRank();
  Descriptor desc;
  desc.base = lowered[next++];
  for (unsigned i = 0; i < rank; ++i)
    desc.shape.push_back(lowered[next++]);
  for (unsigned i = 0; i < rank; ++i)
    desc.strides.push_back(lowered[next++]);
  desc.padding = tile::Padding::Zero;
  descriptors[value] = desc;
}

LogicalResult Values::agreeOnPadding(Operation *op, Value result, ArrayRef<Value> sources) {
  if (!isa<tile::DescType>(result.getType()))
    return success();
  std::optional<tile::Padding> padding;
  for (Value source : sources) {
    auto found = descriptors.find(source);
    if (found == descriptors.end())
      continue;
    if (padding && *padding != found->second.padding)
      return op->emitError("expected descriptors of one padding (because it is chosen at compile time), got two");
    padding = found->second.padding;
  }
  descriptors[result].padding = padding.value_or(tile::Padding::Zero);
  return success();
}
