// Ops that map element to element: one op on scalars per register. Constants.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "compiler/conversion/kgpu_to_nvvm/Words.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

/// bf16 is the upper half of an f32. Either half of a packed pair is extended by one instruction on the whole word;
/// unpacking the pair first would take two.
static Value extendBrain(Lowering &lowering, Value value) {
  auto [word, half] = wordOf(value);
  if (!word)
    return {};
  CodeBuilder &b = lowering.b;
  Value bits = half == 0 ? arith::ShLIOp::create(b, word, b.i32(16)).getResult()
                         : arith::AndIOp::create(b, word, b.i32(int64_t(0xffff0000))).getResult();
  return arith::BitcastOp::create(b, b.getF32Type(), bits);
}

/// Rounds f32 to bf16 two at a time, which is one instruction:
///
///     %y0 = arith.truncf %x0 : f32 to bf16        %y01 = arith.truncf %x01 : vector<2xf32> to vector<2xbf16>
///     %y1 = arith.truncf %x1 : f32 to bf16   ->   %y0, %y1 = the halves of its word
///
/// ptxas forms pairs by itself where the results are only stored; otherwise it rounds each element alone, at an eighth
/// of the rate. f16 is left alone: LLVM narrows the operation in front of the rounding, which pairs would hide from it.
/// Returns nothing if the op is not such a rounding.
static Registers roundInPairs(Lowering &lowering, Operation *op) {
  auto round = dyn_cast<arith::TruncFOp>(op);
  if (!round || round.getRoundingmode() || round->hasOneUse() || !elementOf(round.getIn()).isF32())
    return {};
  Type narrow = elementOf(round.getOut());
  ArrayRef<Value> wide = lowering.get(round.getIn());
  if (!narrow.isBF16() || wide.size() % 2 != 0)
    return {};
  for (size_t i = 0; i < wide.size(); i += 2)
    if (wide[i] == wide[i + 1])
      return {};
  CodeBuilder &b = lowering.b;
  Registers words;
  for (size_t i = 0; i < wide.size(); i += 2) {
    Value pair = LLVM::PoisonOp::create(b, VectorType::get(2, b.getF32Type()));
    for (size_t half : {0, 1})
      pair = LLVM::InsertElementOp::create(b, pair, wide[i + half], b.i32(half));
    Value rounded = arith::TruncFOp::create(b, VectorType::get(2, narrow), pair);
    words.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), rounded));
  }
  return unpackWords(lowering, words, narrow);
}

LogicalResult nvvm::emitElementwise(Lowering &lowering, Operation *op) {
  if (op->getNumResults() == 0)
    return op->emitOpError("expected an op with a result, got none");
  if (Registers rounded = roundInPairs(lowering, op); !rounded.empty()) {
    lowering.set(op->getResult(0), std::move(rounded));
    return success();
  }
  unsigned count = registerCount(op->getResult(0).getType());
  SmallVector<ArrayRef<Value>, 4> operands;
  for (Value operand : op->getOperands()) {
    ArrayRef<Value> registers = lowering.get(operand);
    if (registers.size() != count && isTile(operand))
      return op->emitOpError("expected operands in the layout of the result, got a different number of registers");
    operands.push_back(registers);
  }
  bool isBrainExtension =
      isa<arith::ExtFOp>(op) && elementOf(op->getOperand(0)).isBF16() && elementOf(op->getResult(0)).isF32();
  SmallVector<Registers, 2> results(op->getNumResults(), Registers(count));
  // Registers that hold the same value (a row broadcast over columns) are computed once.
  DenseMap<ArrayRef<Value>, unsigned> known;
  SmallVector<SmallVector<Value, 4>, 0> keys;
  keys.reserve(count);
  for (unsigned reg = 0; reg < count; ++reg) {
    SmallVector<Value, 4> arguments;
    for (ArrayRef<Value> registers : operands)
      arguments.push_back(registers[registers.size() == count ? reg : 0]);
    keys.push_back(arguments);
    auto [same, isNew] = known.try_emplace(keys.back(), reg);
    if (!isNew) {
      for (Registers &result : results)
        result[reg] = result[same->second];
      continue;
    }
    SmallVector<Value, 2> values;
    if (isBrainExtension)
      if (Value extended = extendBrain(lowering, keys.back().front()))
        values = {extended};
    if (values.empty())
      values = lowering.scalars.apply(op, keys.back());
    if (values.empty())
      return failure();
    for (auto [result, value] : llvm::zip(results, values))
      result[reg] = value;
  }
  for (auto [result, registers] : llvm::zip(op->getResults(), results))
    lowering.set(result, std::move(registers));
  return success();
}

/// A tile constant with differing elements becomes a table in constant memory.
static Registers loadTable(Lowering &lowering, RankedTensorType type, DenseElementsAttr elements) {
  CodeBuilder &b = lowering.b;
  const layout::Layout &layout = *layoutOf(type);
  Type element = memoryType(type.getElementType());
  auto module = lowering.source->getParentOfType<ModuleOp>();
  std::string name;
  for (unsigned i = 0; name.empty() || module.lookupSymbol(name); ++i)
    name = ("kiln_table_" + Twine(i)).str();
  SmallVector<Attribute> values;
  for (APInt bits :
       elements.getElementType().isInteger()
           ? llvm::to_vector(elements.getValues<APInt>())
           : llvm::map_to_vector(elements.getValues<APFloat>(), [](APFloat f) { return f.bitcastToAPInt(); })) {
    Type bitsType = b.getIntegerType(element.getIntOrFloatBitWidth());
    values.push_back(b.getIntegerAttr(bitsType, bits.zextOrTrunc(element.getIntOrFloatBitWidth())));
  }
  Type bitsType = b.getIntegerType(element.getIntOrFloatBitWidth());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    auto shaped = RankedTensorType::get({int64_t(values.size())}, bitsType);
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(bitsType, values.size()), /*isConstant=*/true,
                           LLVM::Linkage::Internal, name, DenseElementsAttr::get(shaped, values), memoryBytes(element),
                           kGlobal);
  }
  Value base = LLVM::AddressOfOp::create(b, b.globalPointer(), name);
  Registers registers;
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    Value address = LLVM::GEPOp::create(b, b.globalPointer(), bitsType, base,
                                        ArrayRef<LLVM::GEPArg>{lowering.coordinates.linearIndex(layout, reg)});
    Value bits = LLVM::LoadOp::create(b, bitsType, address, memoryBytes(element), false, false, /*isInvariant=*/true);
    registers.push_back(
        b.fromMemory(bits.getType() == element ? bits : arith::BitcastOp::create(b, element, bits).getResult(),
                     type.getElementType()));
  }
  return registers;
}

Registers Lowering::constantRegisters(Operation *op) {
  Type type = op->getResult(0).getType();
  // Poison may be any value; zero will do, and LLVM can conclude nothing from it.
  auto constantOp = dyn_cast<arith::ConstantOp>(op);
  if (!constantOp) {
    Registers registers;
    for (Type one : registerTypes(type))
      registers.push_back(b.zero(one));
    return registers;
  }
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return {b.constant(registerType(type), constantOp.getValue())};
  auto elements = cast<DenseElementsAttr>(constantOp.getValue());
  if (!elements.isSplat())
    return loadTable(*this, tile, elements);
  return Registers(registerCount(type), b.constant(tile.getElementType(), elements.getSplatValue<Attribute>()));
}

void nvvm::addElementwise(EmitTable &table) {
  table.addAll<emitElementwise, tile::AddPtrOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::PtrCastOp, tile::HintOp>();
}
