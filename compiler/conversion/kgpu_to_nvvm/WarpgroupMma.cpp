// kgpu.warpgroup_mma and kgpu.mma_wait: wgmma. One piece of inline assembly holds all instructions of an op, so that
// nothing comes between them; the accumulator's registers are tied in and out.
//
//     %d = kgpu.warpgroup_mma %a, %b, %z : mem<64x128xf16>, mem<128x128xf16> -> tensor<64x128xf32, wgmma_acc ...>
//   becomes one assembly, with 64 accumulator registers $0 ... $63 and the start addresses $128 and $129:
//     wgmma.fence.sync.aligned;
//     add.s32 start, $128, 0;  mov.b64 left, {start, ...};      likewise right from $129
//     wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {$0, ..., $63}, left, right, adds, 1, 1, 0, 0;
//     the same for the seven further steps of K: `start` 2 units of 16 bytes further, 1 (true) in place of `adds`
//     wgmma.commit_group.sync.aligned;
#include "compiler/conversion/kgpu_to_nvvm/MatrixDescriptor.h"
#include "compiler/conversion/kgpu_to_nvvm/Words.h"
#include "dialects/layout/Constructors.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

namespace {
/// Inline PTX under construction: operands are numbered as they are added, results and tied operands first.
class Text {
public:
  /// `inOut`: registers that are both input and output; with `fresh`, output only.
  Text(ArrayRef<Value> inOut, bool fresh = false) {
    for (Value value : inOut) {
      bool isFloat = value.getType().isF32();
      constraint(std::string(fresh ? "=&" : "=") + (isFloat ? "f" : "r"));
      types.push_back(value.getType());
    }
    for (auto [i, value] : llvm::enumerate(fresh ? ArrayRef<Value>() : inOut)) {
      constraint(std::to_string(i));
      operands.push_back(value);
    }
    next = types.size() + operands.size();
  }
  /// Adds an operand and returns its name.
  std::string operand(StringRef kind, Value value) {
    constraint(kind.str());
    operands.push_back(value);
    return "$" + std::to_string(next++);
  }
  void line(const Twine &text) { body += (text + "\n").str(); }
  Registers emit(Lowering &lowering) { return lowering.b.ptx(body, constraints, types, operands); }

private:
  void constraint(const std::string &text) { constraints += (constraints.empty() ? "" : ",") + text; }
  std::string body, constraints;
  SmallVector<Type> types;
  SmallVector<Value> operands;
  unsigned next = 0;
};

/// An operand in memory: the lower word of its descriptor for the memory's start, and the constants of its pieces.
class Factor {
public:
  Factor(Lowering &lowering, Text &text, Value memory, unsigned depthDim, const Layout &acc) {
    auto type = cast<kgpu::MemType>(memory.getType());
    unsigned across = 1 - depthDim;
    descriptor.emplace(
        *kgpu::factorMemory(type, depthDim), depthDim, type.getElementBytes(),
        across == 1 ? *kgpu::panelsBetween(acc, *kgpu::factorMemory(type, depthDim), type.getElementBytes()) : 1);
    CodeBuilder &b = lowering.b;
    Value start = LLVM::PtrToIntOp::create(b, b.getI32Type(), lowering.scalar(memory));
    // Each group starts at its own rows or columns.
    if (Value group = lowering.place.atEntry([&] {
          return lowering.coordinates.digitsValue(acc, Coord::Group, [&](unsigned i) {
            return descriptor->bytesAt(acc.digits(Coord::Group)[i].basis[across], 0);
          });
        }))
      start = arith::AddIOp::create(b, start, group);
    start = arith::AndIOp::create(b, start, b.i32(MatrixDescriptor::kAddressMask));
    start = arith::ShRUIOp::create(b, start, b.i32(MatrixDescriptor::kAddressShift));
    start = arith::OrIOp::create(b, start, b.i32(descriptor->low()));
    low = text.operand("r", start);
  }
  /// Sets the 64-bit register `name` to the descriptor of a piece.
  void describe(Text &text, StringRef name, int64_t across, int64_t depth) const {
    int64_t units = descriptor->bytesAt(across, depth) >> MatrixDescriptor::kAddressShift;
    text.line("add.s32 start, " + low + ", " + Twine(units) + ";");
    text.line("mov.b64 " + name + ", {start, " + Twine(int32_t(descriptor->high())) + "};");
  }
  bool transposed() const { return descriptor->transposed(); }

private:
  std::optional<MatrixDescriptor> descriptor;
  std::string low;
};
} // namespace

/// "{$3, $4, ...}": a list of `count` operands from number `first` on.
static std::string listOf(int64_t first, int64_t count) {
  std::string list = "{";
  for (int64_t i = 0; i < count; ++i)
    list += (i ? ", $" : "$") + std::to_string(first + i);
  return list + "}";
}

static LogicalResult emitWarpgroupMma(Lowering &lowering, kgpu::WarpgroupMmaOp op) {
  Type element = elementOf(op.getAcc());
  layout::ClusterPiece held = *layout::pieceOf(kgpu::layoutOf(op.getType()));
  const Layout &acc = held.piece;
  auto memory = dyn_cast<kgpu::MemType>(op.getLhs().getType());
  auto right = cast<kgpu::MemType>(op.getRhs().getType());
  Type lhsElement = memory ? memory.getElementType() : elementOf(op.getLhs());
  int64_t depth = kgpu::factorMemory(right, 0)->sides[0], columns = acc.shape()[1] / kgpu::groupsAlongColumns(acc);
  int64_t begin = op.getDepth().empty() ? 0 : op.getDepth()[0], end = op.getDepth().empty() ? depth : op.getDepth()[1];
  int64_t step = kgpu::productDepth(lhsElement, right.getElementType(), element, /*warpgroup=*/true);
  // Registers are ordered by blocks of 64 rows, and within a block by groups of eight columns.
  ArrayRef<Value> registers = lowering.get(op.getAcc());
  Registers words = element.isF32() ? Registers(registers) : packWords(lowering, registers);
  int64_t perWord = acc.registers() / int64_t(words.size()), perBlock = columns / 2;
  int64_t blocks = acc.registers() / perBlock;

  // Without an accumulator to add to, the registers may hold anything.
  APInt known;
  std::optional<bool> accumulates = true;
  if (Value condition = op.getAccumulate())
    accumulates = matchPattern(condition, m_ConstantInt(&known)) ? std::optional<bool>(!known.isZero()) : std::nullopt;
  Text text(words, /*fresh=*/accumulates == false);
  text.line("{");
  text.line(".reg .pred adds;");
  text.line(".reg .b32 start;");
  text.line(".reg .b64 left, right;");
  if (accumulates)
    text.line("setp.ne.b32 adds, " + Twine(int(*accumulates)) + ", 0;");
  std::string first = accumulates ? "adds" : text.operand("b", lowering.scalar(op.getAccumulate()));

  std::optional<Factor> lhs;
  SmallVector<std::string> lhsWords;
  if (memory)
    lhs.emplace(lowering, text, op.getLhs(), /*depthDim=*/1, acc);
  else
    for (Value word : packWords(lowering, lowering.get(op.getLhs())))
      lhsWords.push_back(text.operand("r", word));
  Factor rhs(lowering, text, op.getRhs(), /*depthDim=*/0, acc);

  bool integers = element.isInteger(32);
  std::string types = "." + productTypeName(element, false).str() + "." + productTypeName(lhsElement, true).str() +
                      "." + productTypeName(right.getElementType(), true).str();
  bool halves = right.getElementBytes() == 2;
  text.line("wgmma.fence.sync.aligned;");
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t row = acc.at(Coord::Reg, block * perBlock)[0], column = 0;
    for (int64_t piece : instructionColumns(columns, integers)) {
      std::string sums = listOf((block * perBlock + column / 2) / perWord, piece / 2 / perWord);
      for (int64_t k = begin; k < end; k += step) {
        std::string left = "left";
        if (memory) {
          lhs->describe(text, "left", row, k);
        } else {
          int64_t word = (block * (depth / step) + k / step) * 4;
          left = "{" + lhsWords[word] + ", " + lhsWords[word + 1] + ", " + lhsWords[word + 2] + ", " +
                 lhsWords[word + 3] + "}";
        }
        rhs.describe(text, "right", column, k);
        std::string tail = ", " + (k == begin ? first : std::string("1"));
        if (!integers)
          tail += ", 1, 1";
        if (halves)
          tail += (memory ? (lhs->transposed() ? ", 1" : ", 0") : "") + std::string(rhs.transposed() ? ", 1" : ", 0");
        text.line("wgmma.mma_async.sync.aligned.m64n" + Twine(piece) + "k" + Twine(step) + types + " " + sums + ", " +
                  left + ", right" + tail + ";");
      }
      column += piece;
    }
  }
  text.line("wgmma.commit_group.sync.aligned;");
  text.line("}");
  Registers results = text.emit(lowering);
  lowering.set(op, element.isF32() ? results : unpackWords(lowering, results, element));
  return success();
}

Registers nvvm::waitForProducts(Lowering &lowering, ArrayRef<Value> registers, Type element, int64_t pending) {
  // Users of the accumulator use this assembly's outputs, so that LLVM moves none of them before the wait.
  Registers words = element.isF32() ? Registers(registers) : packWords(lowering, registers);
  Text text(words);
  text.line("wgmma.wait_group.sync.aligned " + Twine(pending) + ";");
  Registers results = text.emit(lowering);
  return element.isF32() ? results : unpackWords(lowering, results, element);
}

/// True if tiles are computed while the product is in flight: between it (or the previous wait) and this wait.
static bool isWorkedUnder(kgpu::MmaWaitOp op) {
  bool works = false;
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode()) {
    if (isa<kgpu::WarpgroupMmaOp, kgpu::MmaWaitOp>(before))
      return works;
    works |= llvm::any_of(before->getResultTypes(), [](Type type) { return isa<RankedTensorType>(type); });
  }
  return false;
}

static LogicalResult emitMmaWait(Lowering &lowering, kgpu::MmaWaitOp op) {
  // ptxas would move the wait before everything that does not need the product, and the warp would idle there.
  if (isWorkedUnder(op))
    lowering.b.hold();
  Type element = elementOf(op.getAcc());
  lowering.set(op, waitForProducts(lowering, lowering.get(op.getAcc()), element, op.getPending()));
  return success();
}

void nvvm::addWarpgroupMma(EmitTable &table) {
  table.add<kgpu::WarpgroupMmaOp, emitWarpgroupMma>();
  table.add<kgpu::MmaWaitOp, emitMmaWait>();
}
