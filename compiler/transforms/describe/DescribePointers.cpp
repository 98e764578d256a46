// kiln-describe-pointers: rewrites loads and stores through tiles of pointers that walk a box to go through a
// descriptor.
//
//   a + (i * stride + k), i < m, k < n, zero elsewhere     ->     block at [i, k] of the array [m, n] at a
//
// Box.cpp proves that an access is a box and which one; this file decides for which accesses it is worthwhile, and
// writes the IR.
#include "compiler/target/Target.h"
#include "compiler/transforms/describe/Box.h"
#include "compiler/transforms/describe/Passes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "runtime/artifact/Artifact.h"

namespace kiln {
#define GEN_PASS_DEF_DESCRIBEPOINTERSPASS
#include "compiler/transforms/describe/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::describe;

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// The loads that provide operands of products in loops, unchanged or through elementwise ops.
static SetVector<tile::LoadOp> factorsOf(func::FuncOp kernel) {
  SetVector<tile::LoadOp> loads;
  kernel.walk([&](tile::DotOp dot) {
    if (!dot->getParentOfType<scf::ForOp>())
      return;
    for (Value factor : {dot.getLhs(), dot.getRhs()})
      for (Operation *op = factor.getDefiningOp(); op;) {
        if (auto load = dyn_cast<tile::LoadOp>(op)) {
          loads.insert(load);
          break;
        }
        bool changes = op->getNumOperands() == 1 && op->getNumRegions() == 0 && isMemoryEffectFree(op);
        op = changes ? op->getOperand(0).getDefiningOp() : nullptr;
      }
  });
  return loads;
}

/// A descriptor load can do the same as this load.
static bool isPlain(tile::LoadOp load, std::string &why) {
  // The engine writes all bits zero, so no negative zero.
  bool zero =
      !load.getOther() || matchPattern(load.getOther(), m_Zero()) || matchPattern(load.getOther(), m_PosZeroFloat());
  if (!zero)
    why = "masked-out elements are not zero";
  else if (load.getIsVolatile() || load.getCache() == tile::CacheModifier::CV)
    why = "the memory is volatile";
  else
    return true;
  return false;
}

static std::string nameOf(BlockArgument argument) {
  auto kernel = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name = kernel.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.name");
  return name ? ("'" + name.getValue() + "'").str() : "argument " + std::to_string(argument.getArgNumber());
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {
class Writer {
public:
  Writer(func::FuncOp kernel, Polynomials &polynomials)
      : polynomials(polynomials), b(kernel.getLoc(), kernel.getContext()), top(kernel.front()) {}

  void describe(tile::LoadOp load, const Box &box);
  void describe(tile::StoreOp store, const Box &box);

private:
  Value makeDesc(const Box &box, tile::DescType type);
  SmallVector<Value> positions(const Box &box, Operation *access);
  Value position(const Polynomial &polynomial, Operation *at);
  Value sum(const Polynomial &polynomial);
  Value narrow(Value value);
  Value wide(const Polynomial &number);
  Value integer(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(int32_t(value))); }

  Polynomials &polynomials;
  ImplicitLocOpBuilder b;
  Block &top;
};
} // namespace

/// A constant or an argument, as an extent or stride.
Value Writer::wide(const Polynomial &number) {
  if (std::optional<int64_t> value = asConstant(number))
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(*value));
  Value argument = polynomials[number.begin()->first.front()].value;
  return argument.getType().isInteger(64) ? argument : arith::ExtSIOp::create(b, b.getI64Type(), argument).getResult();
}

Value Writer::makeDesc(const Box &box, tile::DescType type) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&top);
  SmallVector<Value> shape, strides;
  for (const BoxDim &dim : box.dims) {
    shape.push_back(wide(dim.extent));
    strides.push_back(wide(dim.stride));
  }
  return tile::MakeDescOp::create(b, type, box.base, shape, strides, tile::Padding::Zero);
}

Value Writer::narrow(Value value) {
  Type type = b.getI32Type();
  if (value.getType().isIndex())
    return arith::IndexCastOp::create(b, type, value);
  unsigned bits = value.getType().getIntOrFloatBitWidth();
  if (bits == 32)
    return value;
  return bits > 32 ? arith::TruncIOp::create(b, type, value).getResult()
                   : arith::ExtSIOp::create(b, type, value).getResult();
}

/// The polynomial's value, computed modulo 2^32; it is known to fit.
Value Writer::sum(const Polynomial &polynomial) {
  Value total;
  for (auto &[term, coefficient] : polynomial) {
    Value product;
    int64_t times = coefficient;
    for (unsigned id : term) {
      const Symbol &symbol = polynomials[id];
      Value factor = narrow(symbol.value);
      if (symbol.kind == Symbol::Kind::Iteration) {
        auto loop = cast<scf::ForOp>(cast<BlockArgument>(symbol.value).getOwner()->getParentOp());
        int64_t step = *constantStep(loop);
        factor = arith::SubIOp::create(b, factor, narrow(loop.getLowerBound()));
        factor = arith::DivSIOp::create(b, factor, integer(step));
      }
      product = product ? arith::MulIOp::create(b, product, factor).getResult() : factor;
    }
    if (!product)
      product = integer(times);
    else if (times != 1)
      product = arith::MulIOp::create(b, product, integer(times));
    total = total ? arith::AddIOp::create(b, total, product).getResult() : product;
  }
  return total ? total : integer(0);
}

/// The polynomial's value at `at`. Loop-invariant parts are computed in front of the loop.
Value Writer::position(const Polynomial &polynomial, Operation *at) {
  OpBuilder::InsertionGuard guard(b);
  auto loop = dyn_cast<scf::ForOp>(at->getParentOp());
  if (!loop) {
    b.setInsertionPoint(at);
    return sum(polynomial);
  }
  Polynomial outside, inside;
  for (auto &entry : polynomial) {
    bool moves = llvm::any_of(entry.first, [&](unsigned id) {
      Value value = polynomials[id].value;
      return value && !loop.isDefinedOutsideOfLoop(value);
    });
    (moves ? inside : outside).insert(entry);
  }
  if (inside.empty())
    return position(outside, loop);
  Value start = outside.empty() ? Value() : position(outside, loop);
  b.setInsertionPoint(at);
  Value way = sum(inside);
  return start ? arith::AddIOp::create(b, start, way).getResult() : way;
}

SmallVector<Value> Writer::positions(const Box &box, Operation *access) {
  return llvm::map_to_vector(box.dims,
                             [&](const BoxDim &dim) { return position(polynomials.byVariables(dim.start), access); });
}

/// The descriptor's block: the tile with its contiguous dimension last, and one matrix of each batch.
static RankedTensorType blockOf(const Box &box, RankedTensorType tile) {
  SmallVector<int64_t> sides;
  for (const BoxDim &dim : box.dims)
    sides.push_back(dim.dim ? tile.getShape()[*dim.dim] : 1);
  return tile.clone(sides);
}

void Writer::describe(tile::LoadOp load, const Box &box) {
  b.setLoc(load.getLoc());
  auto tile = cast<RankedTensorType>(load.getType());
  RankedTensorType block = blockOf(box, tile);
  SmallVector<Value> offsets = positions(box, load);
  Value desc = makeDesc(box, tile::DescType::get(b.getContext(), block));
  b.setInsertionPoint(load);
  Value value =
      tile::DescLoadOp::create(b, block, desc, offsets, DenseI32ArrayAttr(), load.getCache(), load.getEvict());
  if (block.getRank() > 2)
    value = tile::ReshapeOp::create(b, tile.clone(block.getShape().take_back(2)), value);
  if (box.isTurned())
    value = tile::TransOp::create(b, tile, value, ArrayRef<int32_t>{1, 0});
  load.replaceAllUsesWith(value);
  load.erase();
}

void Writer::describe(tile::StoreOp store, const Box &box) {
  b.setLoc(store.getLoc());
  RankedTensorType block = blockOf(box, cast<RankedTensorType>(store.getValue().getType()));
  SmallVector<Value> offsets = positions(box, store);
  Value desc = makeDesc(box, tile::DescType::get(b.getContext(), block));
  b.setInsertionPoint(store);
  Value value = store.getValue();
  if (block.getRank() > 2)
    value = tile::ReshapeOp::create(b, block, value);
  tile::DescStoreOp::create(b, desc, offsets, value, DenseI32ArrayAttr(), store.getCache(), store.getEvict());
  store.erase();
}

//===----------------------------------------------------------------------===//
// Cleaning up
//===----------------------------------------------------------------------===//

/// The value that the loop carries at `index` is used only to compute that value itself.
static bool feedsOnlyItself(scf::ForOp loop, unsigned index) {
  if (!loop.getResult(index).use_empty())
    return false;
  SmallVector<Value> open = {loop.getRegionIterArg(index)};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user == loop.getBody()->getTerminator() && use.getOperandNumber() == index)
        continue;
      if (user->getParentOp() != loop || user->getNumRegions() || isa<scf::YieldOp>(user) || !isMemoryEffectFree(user))
        return false;
      llvm::append_range(open, user->getResults());
    }
  }
  return true;
}

/// Removes pointers that loops advance but no longer use.
static LogicalResult dropPointers(func::FuncOp kernel) {
  kernel.walk([](scf::ForOp loop) {
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i)
      if (feedsOnlyItself(loop, i))
        loop.getBody()->getTerminator()->setOperand(i, loop.getRegionIterArg(i));
  });
  RewritePatternSet patterns(kernel.getContext());
  scf::ForOp::getCanonicalizationPatterns(patterns, kernel.getContext());
  return applyPatternsGreedily(kernel, std::move(patterns));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct DescribePointers : kiln::impl::DescribePointersPassBase<DescribePointers> {
  using DescribePointersPassBase::DescribePointersPassBase;

  void runOnOperation() override;
};

/// An access, and its box or the reason why it has none.
template <typename Op> struct Boxed {
  Op op;
  std::optional<Box> box;
  std::string why;
};
} // namespace

static void tell(Operation *access, const char *what, const Box &box) {
  access->emitRemark() << what << " " << nameOf(box.base) << " through a descriptor (its pointers walk a box)";
}

void DescribePointers::runOnOperation() {
  func::FuncOp kernel = getOperation();
  auto module = kernel->getParentOfType<ModuleOp>();
  auto schedule = module->getAttrOfType<StringAttr>(kgpu::kScheduleAttrName);
  if (!kernel->hasAttr("tile.kernel") || !(all || module->hasAttr(kgpu::kDescribePointersAttrName)) ||
      (schedule && schedule.getValue() == kgpu::kLanes) || !Target::fromModule(module).has(Feature::BulkCopy))
    return markAllAnalysesPreserved();
  SetVector<tile::LoadOp> factors = factorsOf(kernel);
  if (factors.empty())
    return markAllAnalysesPreserved();
  RangeAnalysis ranges(kernel, LaunchBounds{artifact::kMostCount, artifact::kMostPrograms});
  AlignmentAnalysis alignment(kernel);
  Polynomials polynomials(ranges);
  auto look = [&](auto op) {
    Boxed<decltype(op)> access{op, std::nullopt, ""};
    access.box = findBox(op.getPtr(), op.getMask(), polynomials, alignment, access.why);
    return access;
  };
  auto lookAtLoad = [&](tile::LoadOp load) {
    Boxed<tile::LoadOp> access{load, std::nullopt, ""};
    if (!isPlain(load, access.why))
      return access;
    access = look(load);
    if (access.box)
      for (const BoxDim &dim : access.box->dims)
        if (access.box && dim.folds && !isMaskedOff(load.getResult(), dim, polynomials, access.why)) {
          access.box.reset();
          break;
        }
    return access;
  };
  auto lookAtStore = [&](tile::StoreOp store) {
    Boxed<tile::StoreOp> access = look(store);
    bool folds = access.box && llvm::any_of(access.box->dims, [](const BoxDim &dim) { return dim.folds; });
    if (folds || (access.box && access.box->isTurned())) {
      access.why = folds ? "rows past the end of the array are stored elsewhere" : "the columns are contiguous";
      access.box.reset();
    }
    return access;
  };

  // Analyse everything before writing anything: the analysis results refer to existing values.
  std::vector<Boxed<tile::LoadOp>> loads;
  std::vector<Boxed<tile::StoreOp>> stores;
  kernel.walk([&](Operation *op) {
    auto load = dyn_cast<tile::LoadOp>(op);
    if (load && isa<RankedTensorType>(load.getType()) &&
        (factors.contains(load) || cast<RankedTensorType>(load.getType()).getRank() == 2))
      loads.push_back(lookAtLoad(load));
    else if (auto store = dyn_cast<tile::StoreOp>(op))
      if (auto type = dyn_cast<RankedTensorType>(store.getValue().getType()); type && type.getRank() == 2)
        stores.push_back(lookAtStore(store));
  });
  // A schedule that multiplies from descriptors needs all operands to come through them.
  bool whole = llvm::all_of(loads, [&](const auto &load) { return load.box || !factors.contains(load.op); });
  Writer writer(kernel, polynomials);
  auto settle = [&](auto &accesses, const char *described, const char *kept) {
    for (auto &access : accesses) {
      if (access.box && whole) {
        tell(access.op, described, *access.box);
        kernel->setAttr(kgpu::kDescribedAttrName, UnitAttr::get(&getContext()));
        writer.describe(access.op, *access.box);
        continue;
      }
      access.op.emitRemark() << kept << " through pointers: "
                             << (access.why.empty() ? "another factor is loaded through pointers" : access.why);
    }
  };
  settle(loads, "loads from", "loads");
  settle(stores, "stores to", "stores");
  if (whole && failed(dropPointers(kernel)))
    signalPassFailure();
}
