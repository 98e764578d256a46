// Verifiers of the products on tensor cores. The labels in comments are those of the constraints in KgpuProducts.td.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"
#include "dialects/tile/TileVerifiers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

static ArrayRef<int64_t> sidesOf(Type type) {
  auto memory = dyn_cast<MemType>(type);
  return memory ? memory.getShape() : cast<RankedTensorType>(type).getShape();
}
static Type elementType(Type type) {
  auto memory = dyn_cast<MemType>(type);
  return memory ? memory.getElementType() : cast<RankedTensorType>(type).getElementType();
}

static bool isNarrowFloat(Type type) { return isa<Float8E4M3FNType, Float8E5M2Type>(type); }

int64_t kgpu::productDepth(Type lhs, Type rhs, Type acc, bool warpgroup) {
  bool f32 = acc.isF32();
  if (lhs.isF16() && rhs.isF16() && (f32 || acc.isF16()))
    return 16;
  if (lhs.isBF16() && rhs.isBF16() && f32)
    return 16;
  if (lhs.isF32() && rhs.isF32() && f32)
    return 8;
  if (isNarrowFloat(lhs) && isNarrowFloat(rhs) && (f32 || (warpgroup && acc.isF16())))
    return 32;
  if (lhs.isInteger(8) && rhs.isInteger(8) && acc.isInteger(32))
    return 32;
  if (!warpgroup && lhs.isF64() && rhs.isF64() && acc.isF64())
    return 4;
  return 0;
}

/// Checks that sides agree and that an instruction takes the element types. Returns its K, or 0 after an error.
static int64_t verifyProduct(Operation *op, Type lhs, Type rhs, Type acc, bool warpgroup, int64_t sums = 1) {
  ArrayRef<int64_t> a = sidesOf(lhs), b = sidesOf(rhs), c = sidesOf(acc);
  size_t rank = c.size();
  bool ranks = a.size() == rank && b.size() == rank && (rank == 2 || (!warpgroup && rank == 3));
  if (!ranks || a[rank - 1] != b[rank - 2] || sums * a[rank - 2] != c[rank - 2] || b[rank - 1] != c[rank - 1] ||
      a.drop_back(2) != c.drop_back(2) || b.drop_back(2) != c.drop_back(2)) { // warpgroup_mma_c1, warp_mma_c1
    op->emitOpError() << "expected M by K times K by N in M by N (because it is a product of matrices), got [" << a
                      << "], [" << b << "] and [" << c << "]";
    return 0;
  }
  int64_t depth = kgpu::productDepth(elementType(lhs), elementType(rhs), elementType(acc), warpgroup);
  if (depth == 0) // warpgroup_mma_c2, warp_mma_c2
    op->emitOpError() << "expected types that an instruction multiplies (because factors are not converted), got "
                      << elementType(lhs) << ", " << elementType(rhs) << " and " << elementType(acc);
  return depth;
}

static InFlightDiagnostic refuseSides(Operation *op, StringRef expected, StringRef why) {
  return op->emitOpError() << "expected " << expected << " (because " << why << "), got ";
}

std::optional<FactorMemory> kgpu::factorMemory(MemType type, unsigned depthDim) {
  std::optional<layout::ClusterPiece> held = layout::pieceOf(layoutOf(type));
  if (!held || type.getRank() != 2)
    return std::nullopt;
  int32_t along = int32_t(depthDim), across = 1 - along;
  for (bool depthFastest : {true, false}) {
    SmallVector<int32_t, 2> order = {depthFastest ? along : across, depthFastest ? across : along};
    for (int32_t swizzle : {128, 64, 32})
      if (layout::swizzled(held->piece.shape(), order, type.getElementBytes(), swizzle) == held->piece)
        return FactorMemory{swizzle, depthFastest, {held->piece.shape()[0], held->piece.shape()[1]}};
  }
  return std::nullopt;
}

int64_t kgpu::groupsAlongColumns(const Layout &acc) {
  int64_t groups = 1;
  for (const layout::Digit &digit : acc.digits(Coord::Group))
    groups *= digit.basis[1] ? digit.radix : 1;
  return groups;
}

std::optional<int64_t> kgpu::panelsBetween(const Layout &acc, const FactorMemory &right, int64_t elementBytes) {
  int64_t groups = groupsAlongColumns(acc), columns = acc.shape()[1] / groups, run = columns;
  if (groups == 1)
    return 1;
  for (const layout::Digit &digit : acc.digits(Coord::Group))
    if (digit.basis[1])
      run = std::min<int64_t>(run, digit.basis[1]);
  // Either a group's columns are contiguous, or panels are dealt out to the groups in turn.
  int64_t panel = right.depthFastest ? 8 : right.swizzle / elementBytes;
  if (run == columns && run % panel == 0)
    return 1;
  return run == panel && !right.depthFastest ? std::optional<int64_t>(groups) : std::nullopt;
}

/// Where layouts are assigned, checks that a register tile has the layout that the instruction demands.
static LogicalResult verifyFragment(Operation *op, StringRef what, Type type,
                                    llvm::function_ref<bool(const Layout &)> fits) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile || !tile.getEncoding() || fits(layoutOf(tile)))
    return success();
  return op->emitOpError() << "expected " << what
                           << " in the layout of the instruction (because it is a fragment), got " << tile;
}

int64_t kgpu::depthPieces(Type lhs, MemType rhs) {
  auto left = dyn_cast<MemType>(lhs);
  if (!left || left.getRank() != 2 || rhs.getRank() != 2)
    return 1;
  auto split = [](MemType memory) {
    std::optional<layout::ClusterPiece> held = layout::pieceOf(layoutOf(memory));
    return held ? held->split : std::nullopt;
  };
  return split(left) == 1u && split(rhs) == 0u ? layoutOf(rhs).size(Coord::Cta) : 1;
}

LogicalResult WarpgroupMmaOp::verify() {
  Type lhs = getLhs().getType(), rhs = getRhs().getType(), acc = getAcc().getType();
  int64_t sums = depthPieces(lhs, cast<MemType>(rhs));
  int64_t depth = verifyProduct(*this, lhs, rhs, acc, /*warpgroup=*/true, sums);
  if (depth == 0)
    return failure();
  auto left = dyn_cast<MemType>(lhs);
  for (auto [memory, depthDim] : {std::pair(left, 1u), std::pair(cast<MemType>(rhs), 0u)}) { // warpgroup_mma_c5
    if (!memory)
      continue;
    std::optional<FactorMemory> form = factorMemory(memory, depthDim);
    if (!form || form->sides[depthDim] * sums != memory.getShape()[depthDim] ||
        (!form->depthFastest && memory.getElementBytes() != 2))
      return emitOpError()
             << "expected swizzled memory with all of K in each cta, or both factors split along it, and along K "
                "unless elements have 16 bits (because the instruction reads no other layout), got "
             << memory;
  }
  std::optional<FactorMemory> right = factorMemory(cast<MemType>(rhs), 0);
  int64_t rows = left ? factorMemory(left, 1)->sides[0] : sidesOf(acc)[0], columns = right->sides[1];
  int64_t k = right->sides[0];
  if (rows % 64 || columns % 8 || (columns > 256 && columns % 256) || k % depth) // warpgroup_mma_c3
    return refuseSides(*this, "M of a cta in 64s, N in 8s up to 256 or in 256s, K in the instruction's",
                       "instructions multiply tiles of 64 by N")
           << rows << ", " << columns << " and " << k;
  ArrayRef<int64_t> part = getDepth();
  if (!part.empty() && (part.size() != 2 || part[0] < 0 || part[0] >= part[1] || part[1] > k || part[0] % depth ||
                        part[1] % depth)) // warpgroup_mma_c6
    return emitOpError() << "expected a beginning and an end within K of " << k << " in " << depth
                         << "s (because one instruction multiplies that many), got [" << part << "]";
  auto groupsOf = [](const Layout &layout) { return layout.size(Coord::Group); };
  auto sameAs = [](const Layout &layout, llvm::function_ref<std::optional<Layout>(ArrayRef<int64_t>)> make) {
    std::optional<layout::ClusterPiece> held = layout::pieceOf(layout);
    return held && make(held->piece.shape()) == held->piece;
  };
  if (failed(verifyFragment(*this, "the accumulator", acc, [&](const Layout &layout) { // warpgroup_mma_c4
        return sameAs(layout, [&](ArrayRef<int64_t> s) -> std::optional<Layout> {
          if (s[1] != columns || (left && s[0] != rows))
            return std::nullopt;
          return layout::wgmmaAccumulator(s, groupsOf(layout));
        });
      })))
    return failure();
  auto tile = dyn_cast<RankedTensorType>(acc);
  if (tile && tile.getEncoding() &&
      !panelsBetween(layout::pieceOf(layoutOf(tile))->piece, *right,
                     cast<MemType>(rhs).getElementBytes())) // warpgroup_mma_c7
    return emitOpError() << "expected a right factor whose panels are as wide as the columns that a group has in a row "
                         << "(because each group reads its own panels), got " << rhs;
  return verifyFragment(*this, "the left factor", lhs, [&](const Layout &layout) {
    unsigned bits = elementType(lhs).getIntOrFloatBitWidth();
    return sameAs(layout, [&](ArrayRef<int64_t> s) { return layout::wgmmaOperandA(s, bits, groupsOf(layout)); });
  });
}

LogicalResult MmaWaitOp::verify() {
  if (int32_t(getPending()) < 0) // mma_wait_c1
    return emitOpError() << "expected at least 0 products pending (because it is a count), got "
                         << int32_t(getPending());
  return success();
}

LogicalResult WarpMmaOp::verify() {
  Type lhs = getLhs().getType(), rhs = getRhs().getType(), acc = getAcc().getType();
  int64_t depth = verifyProduct(*this, lhs, rhs, acc, /*warpgroup=*/false);
  if (depth == 0)
    return failure();
  ArrayRef<int64_t> c = sidesOf(acc);
  int64_t k = sidesOf(lhs).back(), rows = elementType(acc).isF64() ? 8 : 16;
  if (c[c.size() - 2] % rows || c.back() % 8 || k % depth) // warp_mma_c3
    return refuseSides(*this, "M in 16s (of f64: 8s), N in 8s, K in the instruction's",
                       "instructions multiply tiles of 16 by 8")
           << c[c.size() - 2] << ", " << c.back() << " and " << k;
  auto layoutIn = [](Type type) { return cast<RankedTensorType>(type).getEncoding() != Attribute(); };
  if (!layoutIn(acc) || elementType(acc).isF64())
    return success();
  // The warps of the accumulator determine those of the operands.
  const Layout &result = layoutOf(acc);
  int64_t warps = result.size(Coord::Warp), ctas = result.size(Coord::Cta);
  unsigned bits = elementType(lhs).getIntOrFloatBitWidth();
  auto is = [&](Type type, const std::optional<Layout> &fragment) {
    return fragment && layout::inCluster(layout::onWarps(*fragment, warps), ctas, std::nullopt) == layoutOf(type);
  };
  for (int64_t batch = 1; batch <= warps; batch *= 2)
    for (int64_t m = 1; batch * m <= warps; m *= 2)
      for (int64_t n = 1; batch * m * n <= warps; n *= 2)
        if (is(acc, layout::mmaAccumulator(c, m, n, batch)) &&
            is(lhs, layout::mmaOperand(sidesOf(lhs), 0, bits, m, n, batch)) &&
            is(rhs, layout::mmaOperand(sidesOf(rhs), 1, bits, m, n, batch)))
          return success();
  int64_t groups = result.size(Coord::Group);
  if (is(acc, layout::wgmmaAccumulator(c, groups)) && is(lhs, layout::wgmmaOperandA(sidesOf(lhs), bits, groups)) &&
      is(rhs, layout::wgmmaOperandB(sidesOf(rhs), bits, groups)))
    return success();
  return emitOpError()
         << "expected fragments of one arrangement of warps (because each warp multiplies only its own fragments), got "
         << lhs << ", " << rhs << " and " << acc; // warp_mma_c4
}
