// tile.make_desc, tile.desc_load and tile.desc_store: addresses and bounds dimension by dimension, then the same
// accesses as through pointers.
#include "compiler/conversion/kgpu_to_nvvm/Descriptor.h"
#include "compiler/conversion/kgpu_to_nvvm/Access.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Layout;

static LogicalResult emitMakeDesc(Lowering &lowering, tile::MakeDescOp op) {
  Registers parts{lowering.scalar(op.getBase())};
  for (Value side : op.getShape())
    parts.push_back(lowering.scalar(side));
  for (Value stride : op.getStrides())
    parts.push_back(lowering.scalar(stride));
  lowering.set(op.getResult(), std::move(parts));
  return success();
}

bool nvvm::collectOrigins(Value desc, SmallVectorImpl<tile::MakeDescOp> &origins) {
  SmallVector<Value> open{desc};
  llvm::SmallDenseSet<Value> seen;
  bool known = true;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (auto make = value.getDefiningOp<tile::MakeDescOp>()) {
      origins.push_back(make);
    } else if (auto select = value.getDefiningOp<arith::SelectOp>()) {
      open.append({select.getTrueValue(), select.getFalseValue()});
    } else if (auto loop = value.getDefiningOp<scf::ForOp>()) {
      unsigned index = cast<OpResult>(value).getResultNumber();
      open.append({loop.getInitArgs()[index], loop.getYieldedValues()[index]});
    } else if (auto branch = value.getDefiningOp<scf::IfOp>()) {
      unsigned index = cast<OpResult>(value).getResultNumber();
      open.append({branch.thenYield().getOperand(index), branch.elseYield().getOperand(index)});
    } else if (auto argument = dyn_cast<BlockArgument>(value);
               argument && isa<scf::ForOp>(argument.getOwner()->getParentOp())) {
      auto loop = cast<scf::ForOp>(argument.getOwner()->getParentOp());
      open.append({loop.getTiedLoopInit(argument)->get(), loop.getTiedLoopYieldedValue(argument)->get()});
    } else {
      known = false;
    }
  }
  return known;
}

static LogicalResult emitDescLoad(Lowering &lowering, tile::DescLoadOp op) {
  CodeBuilder &b = lowering.b;
  const Layout &layout = *layoutOf(op.getType());
  BlockAccess block{op.getDesc(), op.getOffsets(), op.getBoundary(), &layout};
  VectorAccess access;
  access.element = elementOf(op.getResult());
  access.cache = op.getCache();
  access.evict = op.getEvict();
  access.isReadOnly = lowering.global.isReadOnly(op.getDesc());
  access.mayFollowStore = lowering.global.mayFollowStore(op);
  access.isOrdered = true;
  SmallVector<tile::MakeDescOp> origins;
  collectOrigins(op.getDesc(), origins);
  tile::Padding padding = origins.empty() ? tile::Padding::Zero : origins.front().getPadding();
  for (tile::MakeDescOp origin : origins)
    if (origin.getPadding() != padding)
      return op.emitError("expected descriptors of one padding (because it is chosen at compile time), got two");
  BlockAddresses addresses(lowering, block, access.element);
  access.count = addresses.width();
  access.alignment = access.bytes();
  Registers others;
  if (padding == tile::Padding::NaN)
    if (auto type = dyn_cast<FloatType>(access.element))
      others.assign(access.count, arith::ConstantOp::create(b, cast<TypedAttr>(b.getFloatAttr(
                                                                   type, APFloat::getNaN(type.getFloatSemantics())))));
  Registers result(layout.registers());
  for (int64_t reg = 0; reg < layout.registers(); reg += access.count) {
    int64_t first = ownerRegister(layout, reg);
    Registers loaded;
    if (first < reg)
      loaded.assign(result.begin() + first, result.begin() + first + access.count);
    else
      loaded =
          loadVector(lowering, access, addresses.address(reg), lowering.log.unlessFailed(addresses.mask(reg)), others);
    llvm::copy(loaded, result.begin() + reg);
  }
  lowering.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult emitDescStore(Lowering &lowering, tile::DescStoreOp op) {
  CodeBuilder &b = lowering.b;
  const Layout &layout = *layoutOf(op.getValue().getType());
  BlockAccess block{op.getDesc(), op.getOffsets(), op.getBoundary(), &layout};
  VectorAccess access;
  access.element = elementOf(op.getValue());
  access.cache = op.getCache();
  access.evict = op.getEvict();
  BlockAddresses addresses(lowering, block, access.element);
  access.count = addresses.width();
  access.alignment = access.bytes();
  Value owner = lowering.log.unlessFailed(lowering.coordinates.isOwner(layout));
  ArrayRef<Value> values = lowering.get(op.getValue());
  for (int64_t reg = 0; reg < layout.registers(); reg += access.count) {
    if (!isOwnerRegister(layout, reg))
      continue;
    Value mask = addresses.mask(reg);
    if (mask && owner)
      mask = arith::AndIOp::create(b, owner, mask);
    else if (owner)
      mask = owner;
    storeVector(lowering, access, addresses.address(reg), mask, values.slice(reg, access.count));
  }
  return success();
}

void nvvm::addDescriptors(EmitTable &table) {
  table.add<tile::MakeDescOp, emitMakeDesc>();
  table.add<tile::DescLoadOp, emitDescLoad>();
  table.add<tile::DescStoreOp, emitDescStore>();
}
