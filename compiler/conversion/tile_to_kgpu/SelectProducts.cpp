// The pass kiln-select-products: each tile.dot becomes products that the target has an instruction for.
//
// A kernel uses one form of products: by groups of warps if all its products suit them, since groups then are the
// kernel's threads; otherwise by single warps, decided product by product.
#include "compiler/conversion/tile_to_kgpu/Fragments.h"
#include "compiler/conversion/tile_to_kgpu/TileToKgpu.h"
#include "compiler/target/Target.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace kiln {
#define GEN_PASS_DEF_SELECTPRODUCTSPASS
#include "compiler/conversion/tile_to_kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using layout::Layout;

// The warps of a group, and the rows that it takes.
static constexpr int64_t kGroupWarps = 4, kGroupRows = 64;
// The most accumulator registers of a thread that leave room for addresses; with more, registers spill, which a product
// in flight does not allow.
static constexpr int64_t kMostAccumulators = 200;
// Products of 8-bit floats that one instruction sums.
static constexpr int64_t kNarrowDepth = 32;
// The number of defining ops over which an operand's origin is traced back.
static constexpr unsigned kLookback = 32;

static ArrayRef<int64_t> shapeOf(Value tile) { return cast<RankedTensorType>(tile.getType()).getShape(); }
static Type elementOf(Value tile) { return cast<RankedTensorType>(tile.getType()).getElementType(); }
static bool isNarrowFloat(Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8; }

namespace {
/// The parts that a dot's operands are split into, and the products of parts that are summed.
struct Recipe {
  enum class Split { None, Widen, Tf32, Brain } split = Split::None;
  int parts = 1;
  Type lhs, rhs; ///< element types of the parts
  Type sum;      ///< the type in which products are added
  /// Pairs of parts of the left and right operand, the smallest products first.
  SmallVector<std::pair<int, int>, 6> products;
  /// The dot is summed separately, in less than the accumulator's precision, and added to the accumulator at the end.
  bool apart = false;
};

/// One kernel, or one role of it.
class Selector {
public:
  Selector(const Target &target, const AlignmentAnalysis &analysis, int64_t warps, int64_t ctas)
      : target(target), analysis(analysis), warps(warps), ctas(ctas) {}

  /// The dots of this scope all become products of groups if they suit `groups` of them.
  void add(tile::DotOp dot) { dots.push_back(dot); }
  bool suitsGroups(int64_t groups);
  void replace(std::optional<int64_t> groups);

private:
  /// std::nullopt where the dot is left to multiply-adds.
  std::optional<Recipe> recipeOf(tile::DotOp dot, bool byGroups);
  bool suitsGroup(tile::DotOp dot, const Recipe &recipe, int64_t groups);
  bool factorsFit(tile::DotOp dot, const Recipe &recipe);
  bool suitsWarps(tile::DotOp dot, const Recipe &recipe);
  std::optional<Layout> memoryLayout(Value source, unsigned depthDim, int64_t bytes);
  SmallVector<Value, 3> partsOf(Value source, const Recipe &recipe, Type element);
  SmallVector<Value, 3> memoriesOf(tile::DotOp dot, Value factor, unsigned depthDim, const Recipe &recipe,
                                   Type element);
  void replaceDot(tile::DotOp dot, const Recipe &recipe, std::optional<int64_t> groups);

  const Target &target;
  const AlignmentAnalysis &analysis;
  int64_t warps, ctas;
  SmallVector<tile::DotOp> dots;
  /// The parts of a tile, and memory that holds them, by what was asked for: created once, where the tile is defined.
  DenseMap<std::tuple<Value, Type, int, int>, SmallVector<Value, 3>> parts;
  DenseMap<std::tuple<Value, Type, Attribute>, SmallVector<Value, 3>> memories;
};
} // namespace

//===----------------------------------------------------------------------===//
// Splitting operands into parts
//===----------------------------------------------------------------------===//

std::optional<Recipe> Selector::recipeOf(tile::DotOp dot, bool byGroups) {
  MLIRContext *context = dot.getContext();
  Type f16 = Float16Type::get(context), bf16 = BFloat16Type::get(context), f32 = Float32Type::get(context);
  Recipe recipe;
  recipe.lhs = elementOf(dot.getLhs());
  recipe.rhs = elementOf(dot.getRhs());
  recipe.sum = elementOf(dot.getAcc());
  recipe.products = {{0, 0}};
  // The sum is rounded once, at its end.
  if (recipe.sum.isF16())
    recipe.sum = f32;
  if (isNarrowFloat(recipe.lhs)) {
    int64_t depth = shapeOf(dot.getLhs()).back(), limit = int64_t(dot.getMaxImpreciseAcc());
    bool has = byGroups || target.has(Feature::Fp8WarpMma);
    if (has && limit >= depth && depth % kNarrowDepth == 0) {
      recipe.apart = limit == depth;
    } else {
      recipe.split = Recipe::Split::Widen;
      recipe.lhs = recipe.rhs = f16;
    }
  }
  if (!recipe.lhs.isF32())
    return recipe;
  switch (dot.getPrecision()) {
  case tile::Precision::IEEE:
    return std::nullopt;
  case tile::Precision::TF32:
  case tile::Precision::TF32x3:
    recipe.split = Recipe::Split::Tf32;
    recipe.parts = dot.getPrecision() == tile::Precision::TF32 ? 1 : 2;
    break;
  case tile::Precision::BF16x3:
  case tile::Precision::BF16x6:
    recipe.split = Recipe::Split::Brain;
    recipe.parts = dot.getPrecision() == tile::Precision::BF16x3 ? 2 : 3;
    recipe.lhs = recipe.rhs = bf16;
    break;
  }
  recipe.products.clear();
  for (int small = recipe.parts - 1; small >= 0; --small)
    for (int left = small; left >= 0; --left)
      recipe.products.push_back({left, small - left});
  return recipe;
}

/// Rounds f32 to the bits that the instruction reads; the type stays f32.
static Value roundToTf32(ImplicitLocOpBuilder &b, Value tile) {
  return tile::InlineAsmOp::create(b, TypeRange{tile.getType()}, ValueRange{tile}, "cvt.rna.tf32.f32 $0, $1;", "=f,f",
                                   /*isPure=*/true, /*packed=*/1)
      .getResult(0);
}

SmallVector<Value, 3> Selector::partsOf(Value source, const Recipe &recipe, Type element) {
  if (recipe.split == Recipe::Split::None)
    return {source};
  SmallVector<Value, 3> &made = parts[{source, element, int(recipe.split), recipe.parts}];
  if (!made.empty())
    return made;
  ImplicitLocOpBuilder b(source.getLoc(), source.getContext());
  b.setInsertionPointAfterValue(source);
  auto type = cast<RankedTensorType>(source.getType());
  Type narrow = type.clone(element);
  if (recipe.split == Recipe::Split::Widen) {
    made.push_back(arith::ExtFOp::create(b, narrow, source));
    return made;
  }
  Value rest = source;
  for (int i = 0; i < recipe.parts; ++i) {
    bool last = i + 1 == recipe.parts;
    if (recipe.split == Recipe::Split::Tf32) {
      made.push_back(roundToTf32(b, rest));
      if (!last)
        rest = arith::SubFOp::create(b, rest, made.back());
    } else {
      made.push_back(arith::TruncFOp::create(b, narrow, rest));
      if (!last)
        rest = arith::SubFOp::create(b, rest, arith::ExtFOp::create(b, type, made.back()));
    }
  }
  return made;
}

//===----------------------------------------------------------------------===//
// Conditions for products
//===----------------------------------------------------------------------===//

/// The tile that an operand is the transpose of, or the operand itself; true if it was transposed.
static std::pair<Value, bool> beforeTranspose(Value factor) {
  bool swapped = false;
  while (auto trans = factor.getDefiningOp<tile::TransOp>()) {
    if (trans.getOrder() == ArrayRef<int32_t>{1, 0})
      swapped = !swapped;
    factor = trans.getValue();
  }
  return {factor, swapped};
}

/// Which of two dimensions is contiguous in memory, if the tile was loaded; for computed tiles, the last.
static int32_t contiguousDim(Value tile, const AlignmentAnalysis &analysis) {
  while (Operation *op = tile.getDefiningOp()) {
    if (std::optional<assign::AccessShape> access = assign::accessOf(op, analysis, /*widest=*/16))
      return int32_t(access->fastest());
    if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumOperands() == 0)
      break;
    tile = op->getOperand(0);
  }
  return 1;
}

std::optional<Layout> Selector::memoryLayout(Value source, unsigned depthDim, int64_t bytes) {
  ArrayRef<int64_t> shape = shapeOf(source);
  int32_t along = int32_t(depthDim), first = contiguousDim(source, analysis);
  SmallVector<int32_t, 2> choices = {along};
  // Elements of 16 bits may be contiguous along either dimension.
  if (bytes == 2)
    choices = {first, 1 - first};
  for (int32_t fastest : choices) {
    int64_t row = std::min<int64_t>(128, layout::splitSide(shape[fastest])->power * bytes);
    if (auto memory = layout::swizzled(shape, {fastest, 1 - fastest}, bytes, row))
      return layout::inCluster(*memory, ctas, std::nullopt);
  }
  return std::nullopt;
}

/// True if the operand is computed, element by element, from another product's result (in some arm of a branch).
static bool followsProduct(Value tile, unsigned depth = 0) {
  Operation *op = tile.getDefiningOp();
  if (!op || depth > kLookback)
    return false;
  if (isa<tile::DotOp, kgpu::WarpgroupMmaOp, kgpu::MmaWaitOp>(op))
    return true;
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    unsigned number = cast<OpResult>(tile).getResultNumber();
    return llvm::any_of(branch->getRegions(), [&](Region &arm) {
      return followsProduct(arm.front().getTerminator()->getOperand(number), depth + 1);
    });
  }
  if (!OpTrait::hasElementwiseMappableTraits(op) && !isa<tile::InlineAsmOp>(op))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return isa<RankedTensorType>(operand.getType()) && followsProduct(operand, depth + 1);
  });
}

static int64_t bytesOf(Type element) { return int64_t(element.getIntOrFloatBitWidth()) / 8; }

/// The memory that an operand was loaded from unchanged, if the product can read it there; else null.
static Value slotOf(Value factor, unsigned depthDim) {
  auto load = factor.getDefiningOp<kgpu::LocalLoadOp>();
  auto form = load ? kgpu::factorMemory(load.getMem().getType(), depthDim) : std::nullopt;
  return form && (form->depthFastest || bytesOf(elementOf(factor)) == 2) ? Value(load.getMem()) : Value();
}

static bool comesFromSlot(Value factor) { return factor.getDefiningOp<kgpu::LocalLoadOp>() != nullptr; }

bool Selector::suitsGroup(tile::DotOp dot, const Recipe &recipe, int64_t groups) {
  ArrayRef<int64_t> shape = shapeOf(dot.getAcc());
  if (shape.size() != 2 || groups < 1)
    return false;
  int64_t rows = shape[0], columns = shape[1], depth = shapeOf(dot.getLhs())[1];
  int64_t step = kgpu::productDepth(recipe.lhs, recipe.rhs, recipe.sum, /*warpgroup=*/true);
  if (step == 0 || depth % step || rows % kGroupRows || columns % 8 || (columns > 256 && columns % 256) ||
      rows * columns / (128 * groups) > kMostAccumulators || rows % (kGroupRows * groups) ||
      !layout::wgmmaAccumulator(shape, groups))
    return false;
  auto inMemory = [&](Value factor, unsigned depthDim, Type element) {
    // Copying from one memory to another gains nothing over products from registers.
    if (comesFromSlot(factor))
      return recipe.split == Recipe::Split::None && slotOf(factor, depthDim);
    auto [source, swapped] = beforeTranspose(factor);
    return memoryLayout(source, swapped ? 1 - depthDim : depthDim, bytesOf(element)).has_value();
  };
  bool left = followsProduct(dot.getLhs())
                  ? layout::wgmmaOperandA(shapeOf(dot.getLhs()), unsigned(8 * bytesOf(recipe.lhs)), groups).has_value()
                  : inMemory(dot.getLhs(), 1, recipe.lhs);
  return left && inMemory(dot.getRhs(), 0, recipe.rhs) && factorsFit(dot, recipe);
}

/// True if both operands of the product fit the shared memory of a block at the same time.
bool Selector::factorsFit(tile::DotOp dot, const Recipe &recipe) {
  int64_t bytes = 0;
  Value first;
  for (auto [factor, element] : {std::pair(dot.getLhs(), recipe.lhs), {dot.getRhs(), recipe.rhs}}) {
    bool byThreads = factor == dot.getLhs() && followsProduct(factor);
    Value source = beforeTranspose(factor).first;
    if (byThreads || comesFromSlot(factor) || source == first)
      continue;
    first = source;
    int64_t elements = cast<RankedTensorType>(factor.getType()).getNumElements();
    bytes += elements / ctas * bytesOf(element) * recipe.parts;
  }
  return bytes <= target.gpu.maxSharedBytes;
}

bool Selector::suitsWarps(tile::DotOp dot, const Recipe &recipe) {
  ArrayRef<int64_t> shape = shapeOf(dot.getAcc());
  int64_t step = kgpu::productDepth(recipe.lhs, recipe.rhs, recipe.sum, /*warpgroup=*/false);
  if (step == 0 || shapeOf(dot.getLhs()).back() % step || !assign::arrangeWarps(shape, warps, /*alongRows=*/false))
    return false;
  unsigned bits = unsigned(8 * bytesOf(recipe.lhs));
  return layout::mmaOperand(shapeOf(dot.getLhs()), 0, bits, 1, 1) &&
         layout::mmaOperand(shapeOf(dot.getRhs()), 1, bits, 1, 1);
}

bool Selector::suitsGroups(int64_t groups) {
  return !dots.empty() && llvm::all_of(dots, [&](tile::DotOp dot) {
    std::optional<Recipe> recipe = recipeOf(dot, /*byGroups=*/true);
    return recipe && suitsGroup(dot, *recipe, groups);
  });
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

SmallVector<Value, 3> Selector::memoriesOf(tile::DotOp dot, Value factor, unsigned depthDim, const Recipe &recipe,
                                           Type element) {
  if (Value slot = slotOf(factor, depthDim))
    return {slot};
  auto [source, swapped] = beforeTranspose(factor);
  Layout layout = *memoryLayout(source, swapped ? 1 - depthDim : depthDim, bytesOf(element));
  auto attribute = layout::MapAttr::get(factor.getContext(), layout);
  SmallVector<Value, 3> &made = memories[{source, element, attribute}];
  if (made.empty())
    for (Value part : partsOf(source, recipe, element)) {
      // Outside of the loops in which the tile is invariant, once for all its readers; in the product's own block as
      // late as the product, so that the ops in between hide the latency of a load.
      ImplicitLocOpBuilder b(source.getLoc(), source.getContext());
      if (source.getParentBlock() == dot->getBlock())
        b.setInsertionPoint(dot);
      else
        b.setInsertionPointAfterValue(part);
      auto type = kgpu::MemType::get(b.getContext(), shapeOf(part), element, attribute);
      made.push_back(kgpu::AllocOp::create(b, type, /*offset=*/IntegerAttr()));
      kgpu::LocalStoreOp::create(b, part, made.back());
    }
  if (!swapped)
    return made;
  SmallVector<Value, 3> transposed;
  ImplicitLocOpBuilder b(factor.getLoc(), dot);
  for (Value memory : made)
    transposed.push_back(kgpu::TransOp::create(b, memory, ArrayRef<int32_t>{1, 0}));
  return transposed;
}

/// Replaces NaNs by zero: in the small parts of infinities they are artefacts, and the largest product gives the
/// result.
static Value withoutNans(ImplicitLocOpBuilder &b, Value tile, Value zero) {
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, tile, tile);
  return arith::SelectOp::create(b, isNan, zero, tile);
}

void Selector::replaceDot(tile::DotOp dot, const Recipe &recipe, std::optional<int64_t> groups) {
  SmallVector<Value, 3> lhs = groups && !followsProduct(dot.getLhs())
                                  ? memoriesOf(dot, dot.getLhs(), 1, recipe, recipe.lhs)
                                  : partsOf(dot.getLhs(), recipe, recipe.lhs);
  SmallVector<Value, 3> rhs =
      groups ? memoriesOf(dot, dot.getRhs(), 0, recipe, recipe.rhs) : partsOf(dot.getRhs(), recipe, recipe.rhs);
  ImplicitLocOpBuilder b(dot.getLoc(), dot);
  auto type = cast<RankedTensorType>(dot.getType()).clone(recipe.sum);
  Value zero, acc = dot.getAcc();
  bool narrow = acc.getType() != type;
  if (narrow)
    acc = arith::ExtFOp::create(b, type, acc);
  bool isZero = matchPattern(dot.getAcc(), m_AnyZeroFloat()) || matchPattern(dot.getAcc(), m_Zero());

  // The products of small parts are summed separately, before the largest; NaNs in that sum are dropped.
  bool apart = recipe.apart || recipe.parts > 1;
  if (apart || isZero)
    zero = arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type)));
  Value sum = apart || isZero ? zero : acc;
  bool empty = apart || isZero;
  for (auto [left, right] : recipe.products) {
    if (recipe.parts > 1 && left == 0 && right == 0)
      sum = withoutNans(b, sum, zero);
    if (groups) {
      Value adds = empty ? arith::ConstantOp::create(b, b.getBoolAttr(false)).getResult() : Value();
      sum = kgpu::WarpgroupMmaOp::create(b, type, lhs[left], rhs[right], sum, adds);
      sum = kgpu::MmaWaitOp::create(b, type, sum, /*pending=*/0);
    } else {
      sum = kgpu::WarpMmaOp::create(b, type, lhs[left], rhs[right], sum);
    }
    empty = false;
  }
  if (apart && !isZero)
    sum = arith::AddFOp::create(b, sum, acc);
  if (narrow)
    sum = arith::TruncFOp::create(b, dot.getType(), sum);
  dot.getResult().replaceAllUsesWith(sum);
  dot.erase();
}

void Selector::replace(std::optional<int64_t> groups) {
  struct Choice {
    tile::DotOp dot;
    Recipe recipe;
  };
  // All choices precede all replacements: tracing where an operand comes from looks at dots.
  SmallVector<Choice> choices;
  for (tile::DotOp dot : dots) {
    std::optional<Recipe> recipe = recipeOf(dot, groups.has_value());
    if (recipe &&
        (groups ? suitsGroup(dot, *recipe, *groups) : target.has(Feature::WarpMma) && suitsWarps(dot, *recipe)))
      choices.push_back({dot, *recipe});
  }
  // Transposes that became views of memory, and loads from memory that products now read directly.
  SmallVector<Operation *> transposes;
  for (Choice &choice : choices)
    for (Value factor : {choice.dot.getLhs(), choice.dot.getRhs()}) {
      if (comesFromSlot(factor) && !llvm::is_contained(transposes, factor.getDefiningOp()))
        transposes.push_back(factor.getDefiningOp());
      for (auto trans = factor.getDefiningOp<tile::TransOp>(); trans;
           trans = trans.getValue().getDefiningOp<tile::TransOp>())
        if (!llvm::is_contained(transposes, trans))
          transposes.push_back(trans);
    }
  for (Choice &choice : choices)
    replaceDot(choice.dot, choice.recipe, groups);
  auto unused = [](Operation *op) { return op->use_empty(); };
  for (auto found = llvm::find_if(transposes, unused); found != transposes.end();
       found = llvm::find_if(transposes, unused)) {
    (*found)->erase();
    transposes.erase(found);
  }
}

namespace {
struct SelectProducts : kiln::impl::SelectProductsPassBase<SelectProducts> {
  using Base = kiln::impl::SelectProductsPassBase<SelectProducts>;
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Target target = Target::fromModule(module);
    if (!target.isGpu())
      return;
    int64_t warps = kgpu::moduleNumber(module, kgpu::kNumWarpsAttrName, 4),
            ctas = kgpu::moduleNumber(module, kgpu::kClusterAttrName, 1);
    // The kernel's own code runs on the module's threads; a role has its own.
    AlignmentAnalysis analysis(module);
    Selector common(target, analysis, warps, ctas);
    SmallVector<std::pair<Selector, std::optional<int64_t>>, 2> roles;
    for (auto func : module.getOps<func::FuncOp>()) {
      func.walk<WalkOrder::PreOrder>([&](Operation *op) {
        if (isa<kgpu::RolesOp>(op))
          return WalkResult::skip();
        if (auto dot = dyn_cast<tile::DotOp>(op))
          common.add(dot);
        return WalkResult::advance();
      });
      for (auto op : func.getOps<kgpu::RolesOp>())
        for (auto [index, body] : llvm::enumerate(op.getBodies())) {
          int64_t groups = op.getGroups()[index], size = op.getWarps()[index];
          Selector role(target, analysis, size, ctas);
          body.walk([&](tile::DotOp dot) { role.add(dot); });
          bool byGroups =
              !byWarps && target.has(Feature::WarpgroupMma) && size == kGroupWarps && role.suitsGroups(groups);
          if (byGroups || groups == 1)
            roles.push_back({std::move(role), byGroups ? std::optional<int64_t>(groups) : std::nullopt});
        }
    }
    std::optional<int64_t> groups;
    bool mayGroup = !byWarps && target.has(Feature::WarpgroupMma) && !module->hasAttr(kgpu::kNumGroupsAttrName);
    if (mayGroup && warps % kGroupWarps == 0 && common.suitsGroups(warps / kGroupWarps)) {
      groups = warps / kGroupWarps;
      Builder b(module.getContext());
      module->setAttr(kgpu::kNumWarpsAttrName, b.getI32IntegerAttr(kGroupWarps));
      module->setAttr(kgpu::kNumGroupsAttrName, b.getI32IntegerAttr(int32_t(*groups)));
    }
    common.replace(groups);
    for (auto &[role, byGroups] : roles)
      role.replace(byGroups);
  }
};
} // namespace
