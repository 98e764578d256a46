// tile.make_desc, tile.desc_load and tile.desc_store: addresses and bounds dimension by dimension, then the same
// accesses as through pointers.
#include "compiler/conversion/kgpu_to_nvvm/Access.h"
#include "mlir/IR/Matchers.h"
#include <map>

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

/// All make_desc ops a descriptor may come from; false when one is not known.
static bool collectOrigins(Value desc, SmallVectorImpl<tile::MakeDescOp> &origins) {
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

namespace {
/// What a block access is made of.
struct BlockAccess {
  Value desc;
  ValueRange offsets;
  std::optional<ArrayRef<int32_t>> boundary;
  const Layout *layout;

  bool checks(unsigned dim) const { return !boundary || llvm::is_contained(*boundary, int32_t(dim)); }
};

/// Addresses and predicates of the registers of a block.
class BlockAddresses {
public:
  BlockAddresses(Lowering &lowering, const BlockAccess &block, Type element)
      : lowering(lowering), b(lowering.b), block(block), bytes(memoryBytes(element)), rank(block.layout->rank()),
        parts(lowering.get(block.desc)) {
    for (Value offset : block.offsets) {
      Value value = lowering.scalar(offset);
      starts.push_back(value.getType().isInteger(64) ? value
                                                     : arith::ExtSIOp::create(b, b.getI64Type(), value).getResult());
    }
  }

  /// The widest access along a dimension of stride 1 that alignment and bounds keep whole.
  int64_t width() {
    SmallVector<tile::MakeDescOp> origins;
    if (!collectOrigins(block.desc, origins) || origins.empty())
      return 1;
    const AlignmentAnalysis &alignment = lowering.alignment;
    auto divides = [&](Value value, int64_t divisor) { return alignment.get(value).everyElement() % divisor == 0; };
    int64_t best = 1;
    for (unsigned dim = 0; dim < rank; ++dim) {
      int64_t count = block.layout->contiguity(dim);
      count = std::min(count & -count, lowering.target.vectorBytes / bytes);
      auto fits = [&](int64_t count) {
        for (tile::MakeDescOp origin : origins) {
          if (!matchPattern(origin.getStrides()[dim], m_One()))
            return false;
          if (!divides(origin.getBase(), count * bytes) || !divides(block.offsets[dim], count))
            return false;
          if (block.checks(dim) && !divides(origin.getShape()[dim], count))
            return false;
          for (unsigned other = 0; other < rank; ++other)
            if (other != dim && !divides(origin.getStrides()[other], count) && !isZero(block, other))
              return false;
        }
        return true;
      };
      while (count > 1 && !fits(count))
        count /= 2;
      best = std::max(best, count);
    }
    return best;
  }

  Value address(int64_t reg) {
    // What threads and offsets owe is one sum for all registers; a register adds a constant times a stride.
    std::vector<void *> key;
    SmallVector<std::pair<Value, int64_t>> coordinates;
    for (unsigned dim = 0; dim < rank; ++dim) {
      coordinates.push_back(lowering.coordinateParts(*block.layout, reg, dim));
      key.push_back(coordinates.back().first.getAsOpaquePointer());
    }
    Value &base = bases[key];
    if (!base) {
      base = parts[0];
      for (unsigned dim = 0; dim < rank; ++dim) {
        Value place = starts[dim];
        if (Value thread = coordinates[dim].first)
          place = arith::AddIOp::create(b, place, arith::ExtUIOp::create(b, b.getI64Type(), thread));
        base = lowering.offsetBy(base, arith::MulIOp::create(b, place, strideBytes(dim)).getResult());
      }
    }
    Value address = base;
    for (unsigned dim = 0; dim < rank; ++dim)
      if (int64_t constant = coordinates[dim].second) {
        Value &distance = distances[{dim, constant}];
        if (!distance)
          distance = arith::MulIOp::create(b, strideBytes(dim), lowering.i64(constant));
        address = lowering.offsetBy(address, distance);
      }
    return address;
  }

  /// Null where every element is inside.
  Value mask(int64_t reg) {
    Value all;
    for (unsigned dim = 0; dim < rank; ++dim) {
      if (!block.checks(dim))
        continue;
      auto [thread, constant] = lowering.coordinateParts(*block.layout, reg, dim);
      Value &inside = insides[{dim, {thread.getAsOpaquePointer(), constant}}];
      if (!inside) {
        Value place = starts[dim];
        if (thread)
          place = arith::AddIOp::create(b, place, arith::ExtUIOp::create(b, b.getI64Type(), thread));
        if (constant)
          place = arith::AddIOp::create(b, place, lowering.i64(constant));
        // As unsigned numbers, negative positions are beyond every extent.
        inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, place, parts[1 + dim]);
      }
      all = all ? arith::AndIOp::create(b, all, inside).getResult() : inside;
    }
    return all;
  }

private:
  static bool isZero(const BlockAccess &block, unsigned dim) {
    return block.layout->shape()[dim] == 1 && matchPattern(block.offsets[dim], m_Zero());
  }
  Value strideBytes(unsigned dim) {
    Value &stride = strides[dim];
    if (!stride)
      stride = arith::MulIOp::create(b, parts[1 + rank + dim], lowering.i64(bytes));
    return stride;
  }

  Lowering &lowering;
  ImplicitLocOpBuilder &b;
  const BlockAccess &block;
  int64_t bytes;
  unsigned rank;
  ArrayRef<Value> parts; ///< base, extents, strides
  SmallVector<Value> starts;
  std::map<unsigned, Value> strides;
  std::map<std::vector<void *>, Value> bases;
  std::map<std::pair<unsigned, int64_t>, Value> distances;
  std::map<std::pair<unsigned, std::pair<void *, int64_t>>, Value> insides;
};
} // namespace

static LogicalResult emitDescLoad(Lowering &lowering, tile::DescLoadOp op) {
  ImplicitLocOpBuilder &b = lowering.b;
  const Layout &layout = *layoutOf(op.getType());
  BlockAccess block{op.getDesc(), op.getOffsets(), op.getBoundary(), &layout};
  Access access;
  access.element = elementOf(op.getResult());
  access.cache = op.getCache();
  access.evict = op.getEvict();
  access.isReadOnly = lowering.isReadOnly(op.getDesc());
  access.mayFollowStore = lowering.mayFollowStore(op);
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
    int64_t first = Lowering::ownerRegister(layout, reg);
    Registers loaded;
    if (first < reg)
      loaded.assign(result.begin() + first, result.begin() + first + access.count);
    else
      loaded = loadVector(lowering, access, addresses.address(reg), lowering.unlessFailed(addresses.mask(reg)), others);
    llvm::copy(loaded, result.begin() + reg);
  }
  lowering.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult emitDescStore(Lowering &lowering, tile::DescStoreOp op) {
  ImplicitLocOpBuilder &b = lowering.b;
  const Layout &layout = *layoutOf(op.getValue().getType());
  BlockAccess block{op.getDesc(), op.getOffsets(), op.getBoundary(), &layout};
  Access access;
  access.element = elementOf(op.getValue());
  access.cache = op.getCache();
  access.evict = op.getEvict();
  BlockAddresses addresses(lowering, block, access.element);
  access.count = addresses.width();
  access.alignment = access.bytes();
  Value owner = lowering.unlessFailed(lowering.isOwner(layout));
  ArrayRef<Value> values = lowering.get(op.getValue());
  for (int64_t reg = 0; reg < layout.registers(); reg += access.count) {
    if (!Lowering::isOwnerRegister(layout, reg))
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
