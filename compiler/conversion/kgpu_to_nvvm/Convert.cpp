// kgpu.convert inside a warp: no code, register moves, transposes of matrices or shuffles. kiln-lower-exchanges has
// already turned conversions that need shared memory into stores and loads.
//
//     %y = kgpu.convert %x : tensor<64xf16, blocked [64] vector 2> -> tensor<64xf16, blocked [64] vector 1>
//
//              lane 0  lane 1  lane 2 ...            lane 0  lane 1  lane 2 ...
//     reg 0      0       2       4          ->         0       1       2
//     reg 1      1       3       5                    32      33      34
//
//   becomes two shuffles. Each lane selects the register that it sends, and into which result the received value goes:
//     %a = shfl.sync.idx(lane < 16 ? x0 : x1, source)     %b = shfl.sync.idx(lane < 16 ? x1 : x0, source ^ 16)
//     y0 = odd lane ? %b : %a                             y1 = odd lane ? %a : %b
#include "compiler/conversion/kgpu_to_nvvm/Shuffle.h"
#include "compiler/conversion/kgpu_to_nvvm/Words.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::ConversionKind;
using layout::Coord;
using layout::Layout;

/// The lane that each lane reads from, before a step's XOR.
static Value sourceLane(Lowering &lowering, const layout::Conversion &plan) {
  CodeBuilder &b = lowering.b;
  Value source;
  for (auto [bit, lanes] : plan.laneMap) {
    Value set = parityOf(lowering, {bit});
    Value part = arith::SelectOp::create(b, set, b.i32(lanes), b.i32(0));
    source = source ? arith::XOrIOp::create(b, source, part).getResult() : part;
  }
  return source ? source : b.i32(0);
}

namespace {
/// Two registers of a warp, seen as an 8 x 8 matrix of 16-bit elements (lane 4 i + j holds columns 2 j and 2 j + 1 of
/// row i), and the two registers that hold its transpose.
struct Transposed {
  std::array<int64_t, 2> from, to;
};
} // namespace

/// The element in a register of a lane of the first warp.
static layout::Index elementAt(const Layout &layout, int64_t lane, int64_t reg) {
  return layout.combine(layout.at(Coord::Lane, lane), layout.at(Coord::Reg, reg));
}

/// The first register of a lane that holds the element; std::nullopt if none does.
static std::optional<int64_t> registerOf(const Layout &layout, int64_t lane, const layout::Index &element) {
  for (int64_t reg = 0; reg < layout.registers(); ++reg)
    if (elementAt(layout, lane, reg) == element)
      return reg;
  return std::nullopt;
}

/// The conversion as transposes of matrices, if it consists of those alone.
static std::optional<SmallVector<Transposed>> findTransposes(const Layout &from, const Layout &to) {
  for (Coord coord : {Coord::Warp, Coord::Group, Coord::Cta})
    if (from.digits(coord) != to.digits(coord))
      return std::nullopt;
  if (from.size(Coord::Lane) != 32 || to.size(Coord::Lane) != 32)
    return std::nullopt;
  SmallVector<Transposed> found;
  SmallVector<bool> done(to.registers());
  for (int64_t reg = 0; reg < to.registers(); ++reg) {
    if (done[reg])
      continue;
    // Column 0 of a matrix is row 0 of its transpose: lane 4 i holds the start of row i of both.
    auto even = registerOf(from, 0, elementAt(to, 0, reg)), odd = registerOf(from, 0, elementAt(to, 4, reg));
    auto next = even ? registerOf(to, 0, elementAt(from, 4, *even)) : std::nullopt;
    if (!even || !odd || !next || *next == reg || done[*next])
      return std::nullopt;
    Transposed pair{{*even, *odd}, {reg, *next}};
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t half = 0; half < 2; ++half) {
        int64_t row = lane / 4, column = lane % 4 * 2 + half;
        if (elementAt(to, lane, pair.to[half]) != elementAt(from, column * 4 + row / 2, pair.from[row % 2]))
          return std::nullopt;
      }
    done[reg] = done[*next] = true;
    found.push_back(pair);
  }
  return found;
}

static Registers transpose(Lowering &lowering, ArrayRef<Transposed> pairs, ArrayRef<Value> values) {
  Registers result(2 * pairs.size());
  for (const Transposed &pair : pairs) {
    Type element = values[pair.from[0]].getType();
    Registers words = packWords(lowering, {values[pair.from[0]], values[pair.from[1]]});
    // All lanes take part: a kernel's control flow is uniform.
    words = lowering.b.ptx("movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r", {lowering.b.getI32Type()}, words,
                           /*pure=*/true);
    for (auto [reg, value] : llvm::zip(pair.to, unpackWords(lowering, words, element)))
      result[reg] = value;
  }
  return result;
}

static LogicalResult emitConvert(Lowering &lowering, kgpu::ConvertOp op) {
  ArrayRef<Value> from = lowering.get(op.getSource());
  layout::Conversion plan = planConversion(kgpu::layoutOf(op.getSource().getType()), kgpu::layoutOf(op.getType()),
                                           memoryBytes(elementOf(op.getSource())));
  Registers result;
  switch (plan.kind) {
  case ConversionKind::None:
    lowering.set(op, Registers(from));
    return success();
  case ConversionKind::Registers:
    for (int64_t source : plan.registers)
      result.push_back(from[source]);
    lowering.set(op, result);
    return success();
  case ConversionKind::Shared:
    return op.emitOpError("expected a conversion within a warp (because kiln-lower-exchanges turns the others into "
                          "stores and loads), got one between warps");
  case ConversionKind::Shuffle:
    break;
  }
  const Layout &held = kgpu::layoutOf(op.getSource().getType()), &wanted = kgpu::layoutOf(op.getType());
  if (memoryBytes(elementOf(op.getSource())) == 2)
    if (auto pairs = findTransposes(held, wanted)) {
      lowering.set(op, transpose(lowering, *pairs, from));
      return success();
    }
  Registers source(from), given(plan.steps.size());
  // Steps of one distance are shuffled together: narrow values share words.
  bool sameLane = plan.laneMapIsIdentity();
  llvm::MapVector<int64_t, SmallVector<unsigned>> byDistance;
  Registers sent;
  for (auto [index, step] : llvm::enumerate(plan.steps)) {
    sent.push_back(selectBy(lowering, step.from, source));
    if (step.shuffles)
      byDistance[step.laneXor].push_back(index);
    else
      given[index] = sent.back();
  }
  Value origin = sameLane ? Value() : sourceLane(lowering, plan);
  for (auto &[distance, steps] : byDistance) {
    Registers values;
    for (unsigned step : steps)
      values.push_back(sent[step]);
    Registers taken;
    if (sameLane) {
      taken = shuffleXor(lowering, values, distance);
    } else {
      Value lane = origin;
      if (distance)
        lane = arith::XOrIOp::create(lowering.b, origin, lowering.b.i32(distance));
      taken = shuffleFrom(lowering, values, lane);
    }
    for (auto [step, value] : llvm::zip(steps, taken))
      given[step] = value;
  }
  for (const layout::Select &select : plan.results)
    result.push_back(selectBy(lowering, select, given));
  lowering.set(op, result);
  return success();
}

void nvvm::addConvert(EmitTable &table) { table.add<kgpu::ConvertOp, emitConvert>(); }
