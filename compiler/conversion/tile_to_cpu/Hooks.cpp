// Calls into the runtime (KilnHooks): print, assert, checked accesses; the list of sites they refer to; library
// functions by name.
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/tile_to_cpu/Abi.h"
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/artifact/HostLibrary.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

int KernelLowering::siteOf(Operation *op) {
  auto [known, added] = siteIds.try_emplace(op, sites.size());
  if (added)
    sites.push_back(describeSite(op, this->entry.getName().drop_front(5)));
  return known->second;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void KernelLowering::hookCall(int64_t hook, ArrayRef<Value> arguments) {
  SmallVector<Value> operands{LLVM::LoadOp::create(b, ptrType, offsetBy(hooks, hook), 8)};
  operands.append(arguments.begin(), arguments.end());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                          llvm::map_to_vector(arguments, [](Value v) { return v.getType(); }));
  LLVM::CallOp::create(b, type, operands);
}

Value KernelLowering::linearElement(const Index &at, ArrayRef<int64_t> shape) {
  Value linear = i64(0);
  for (auto [side, coord] : llvm::zip(shape, at.at))
    linear = arith::AddIOp::create(b, arith::MulIOp::create(b, linear, i64(side)), coordValue(coord));
  return linear;
}

LogicalResult KernelLowering::emitPrint(tile::PrintOp op) {
  unsigned count = op.getOperands().size();
  int lifetime;
  Value list = frameBuffer(std::max<int64_t>(8, 8 * count), lifetime);
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    Value pointer;
    if (isTile(operand)) {
      pointer = storageOf(operand).pointer;
    } else {
      int spill;
      pointer = frameBuffer(8, spill);
      storeTo(pointer, scalar(operand), operand.getType());
    }
    LLVM::StoreOp::create(b, pointer, offsetBy(list, 8 * index), 8);
  }
  hookCall(kPrintHook, {launch, i32(siteOf(op)), program, list});
  return success();
}

LogicalResult KernelLowering::emitAssert(tile::AssertOp op, const Index *at) {
  Value holds = at ? eval(op.getCondition(), *at) : scalar(op.getCondition());
  Value fails = arith::XOrIOp::create(b, holds, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  Value element = at ? linearElement(*at, shapeOf(op.getCondition())) : i64(0);
  branch(
      fails, {},
      [&]() -> SmallVector<Value> {
        hookCall(kFailHook, {launch, i32(siteOf(op)), program, element});
        return {};
      },
      nullptr);
  return success();
}

void KernelLowering::emitAccess(Operation *op, Access kind, Value address, Value mask, Type element, const Index &at,
                                ArrayRef<int64_t> shape, Value strideBytes, Value addresses) {
  int site = siteOf(op);
  Value start = linearElement(at, shape);
  int64_t bytes = memoryBytes(element), elementStep = 1;
  if (at.isVector())
    for (int64_t side : shape.drop_front(at.vectorDim + 1))
      elementStep *= side;
  loop(at.width, 1, {}, [&](Value lane, ValueRange) -> SmallVector<Value> {
    auto call = [&]() -> SmallVector<Value> {
      Value where = address;
      if (addresses) {
        where = vector::ExtractOp::create(b, addresses, OpFoldResult(indexOf(lane)));
        where = LLVM::IntToPtrOp::create(b, ptrType, where);
      } else if (at.isVector()) {
        where = offsetBy(where, arith::MulIOp::create(b, lane, strideBytes ? strideBytes : i64(bytes)).getResult());
      }
      Value number = arith::AddIOp::create(b, start, arith::MulIOp::create(b, lane, i64(elementStep)));
      hookCall(kAccessHook, {launch, i32(site), program, number, where, i32(bytes), i32(static_cast<int64_t>(kind))});
      return {};
    };
    Value here = mask;
    if (here && isa<VectorType>(here.getType()))
      here = vector::ExtractOp::create(b, here, OpFoldResult(indexOf(lane)));
    if (here)
      branch(here, {}, call, nullptr);
    else
      call();
    return {};
  });
}

void KernelLowering::emitIndexCheck(Operation *op, Value index, int64_t side, const Index &at,
                                    ArrayRef<int64_t> shape) {
  Value outside = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, index, i64(side));
  Value element = linearElement(at, shape);
  branch(
      outside, {},
      [&]() -> SmallVector<Value> {
        Value asAddress = LLVM::IntToPtrOp::create(b, ptrType, index);
        hookCall(kAccessHook,
                 {launch, i32(siteOf(op)), program, element, asAddress, i32(side), i32(KILN_ACCESS_INDEX)});
        return {};
      },
      nullptr);
}

void KernelLowering::emitStoreBegins(Operation *op) {
  Value none = LLVM::ZeroOp::create(b, ptrType);
  hookCall(kAccessHook, {launch, i32(siteOf(op)), program, i64(0), none, i32(0), i32(KILN_ACCESS_STORE_BEGINS)});
}

Value KernelLowering::indexOf(Value value) { return arith::IndexCastOp::create(b, b.getIndexType(), value); }

//===----------------------------------------------------------------------===//
// Library functions
//===----------------------------------------------------------------------===//

static bool hasSignature(StringRef signature, Type result, ArrayRef<Value> operands) {
  auto is = [](char letter, Type type) {
    type = getElementTypeOrSelf(type);
    switch (letter) {
    case 'f':
      return type.isF32();
    case 'd':
      return type.isF64();
    case 'i':
      return type.isInteger(32);
    default:
      return type.isInteger(64);
    }
  };
  if (signature.size() != operands.size() + 1 || !is(signature.front(), result))
    return false;
  return llvm::all_of(llvm::zip(signature.drop_front(), operands),
                      [&](auto pair) { return is(std::get<0>(pair), std::get<1>(pair).getType()); });
}

Value KernelLowering::emitExternCall(tile::ExternCallOp op, ArrayRef<Value> operands) {
  StringRef name = op.getSymbol();
  // libdevice spells functions __nv_NAME (double) and __nv_NAMEf (float); both are the elements' own type here.
  name.consume_front("__nv_");
  name.consume_front("fast_");
  Type type = operands.front().getType();
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(type));
  if (isFloat && name.ends_with("f") && name != "erf")
    name = name.drop_back();
#define KILN_UNARY(NAME, OP)                                                                                           \
  if (name == NAME && operands.size() == 1)                                                                            \
    return OP::create(b, operands[0]);
#define KILN_BINARY(NAME, OP)                                                                                          \
  if (name == NAME && operands.size() == 2)                                                                            \
    return OP::create(b, operands[0], operands[1]);
  if (isFloat) {
    KILN_UNARY("exp", math::ExpOp)
    KILN_UNARY("exp2", math::Exp2Op)
    KILN_UNARY("expm1", math::ExpM1Op)
    KILN_UNARY("log", math::LogOp)
    KILN_UNARY("log2", math::Log2Op)
    KILN_UNARY("log10", math::Log10Op)
    KILN_UNARY("log1p", math::Log1pOp)
    KILN_UNARY("sin", math::SinOp)
    KILN_UNARY("cos", math::CosOp)
    KILN_UNARY("tan", math::TanOp)
    KILN_UNARY("asin", math::AsinOp)
    KILN_UNARY("acos", math::AcosOp)
    KILN_UNARY("atan", math::AtanOp)
    KILN_UNARY("sinh", math::SinhOp)
    KILN_UNARY("cosh", math::CoshOp)
    KILN_UNARY("tanh", math::TanhOp)
    KILN_UNARY("erf", math::ErfOp)
    KILN_UNARY("erfc", math::ErfcOp)
    KILN_UNARY("sqrt", math::SqrtOp)
    KILN_UNARY("rsqrt", math::RsqrtOp)
    KILN_UNARY("cbrt", math::CbrtOp)
    KILN_UNARY("floor", math::FloorOp)
    KILN_UNARY("ceil", math::CeilOp)
    KILN_UNARY("trunc", math::TruncOp)
    KILN_UNARY("round", math::RoundOp)
    KILN_UNARY("rint", math::RoundEvenOp)
    KILN_UNARY("nearbyint", math::RoundEvenOp)
    KILN_UNARY("fabs", math::AbsFOp)
    KILN_UNARY("abs", math::AbsFOp)
    KILN_BINARY("pow", math::PowFOp)
    KILN_BINARY("atan2", math::Atan2Op)
    KILN_BINARY("copysign", math::CopySignOp)
    KILN_BINARY("fmod", arith::RemFOp)
    KILN_BINARY("fmax", arith::MaxNumFOp)
    KILN_BINARY("fmin", arith::MinNumFOp)
    KILN_BINARY("div_rn", arith::DivFOp)
    KILN_BINARY("div", arith::DivFOp)
    if (name == "fma" && operands.size() == 3)
      return math::FmaOp::create(b, operands[0], operands[1], operands[2]);
  } else {
    KILN_UNARY("abs", math::AbsIOp)
    KILN_UNARY("clz", math::CountLeadingZerosOp)
    KILN_UNARY("popc", math::CtPopOp)
  }
#undef KILN_UNARY
#undef KILN_BINARY
  Type result = elementOf(op.getResult());
  for (const artifact::HostFunction &function : artifact::hostFunctions)
    if (op.getSymbol() == function.symbol && hasSignature(function.signature, result, operands))
      return callHost(op.getSymbol(), result, operands);
  op.emitError("expected a function of libdevice with its own types (because the cpu target links no other library), "
               "got '")
      << op.getSymbol() << "'";
  failed = true;
  if (auto vector = dyn_cast<VectorType>(type))
    return zeroOf(vector.clone(result));
  return zeroOf(result);
}

/// A call for each lane of a function that the loader defines.
Value KernelLowering::callHost(StringRef symbol, Type result, ArrayRef<Value> operands) {
  SmallVector<Type> types =
      llvm::map_to_vector(operands, [](Value operand) { return getElementTypeOrSelf(operand.getType()); });
  auto module = entry->getParentOfType<ModuleOp>();
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
  if (!callee) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    callee = LLVM::LLVMFuncOp::create(b, symbol, LLVM::LLVMFunctionType::get(result, types));
    constexpr auto none = LLVM::ModRefInfo::NoModRef;
    callee.setMemoryEffectsAttr(b.getAttr<LLVM::MemoryEffectsAttr>(none, none, none, none, none, none));
    callee.setNoUnwind(true);
    callee.setWillReturn(true);
  }
  auto call = [&](ArrayRef<Value> scalars) { return LLVM::CallOp::create(b, callee, scalars).getResult(); };
  auto vector = dyn_cast<VectorType>(operands.front().getType());
  if (!vector)
    return call(operands);
  Value all = zeroOf(vector.clone(result));
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
    SmallVector<Value> scalars = llvm::map_to_vector(
        operands, [&](Value operand) -> Value { return vector::ExtractOp::create(b, operand, lane); });
    all = vector::InsertOp::create(b, call(scalars), all, lane);
  }
  return all;
}
