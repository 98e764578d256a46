// Calls into the runtime; see Hooks.h.
#include "compiler/conversion/tile_to_cpu/Hooks.h"
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/tile_to_cpu/Abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

int Hooks::siteOf(Operation *op) {
  auto [known, added] = siteIds.try_emplace(op, described.size());
  if (added)
    described.push_back(describeSite(op, kernel.getName()));
  return known->second;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void Hooks::call(int64_t hook, ArrayRef<Value> arguments) {
  SmallVector<Value> operands{LLVM::LoadOp::create(b, b.ptrType, b.offsetBy(table, hook), 8)};
  operands.append(arguments.begin(), arguments.end());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                          llvm::map_to_vector(arguments, [](Value v) { return v.getType(); }));
  LLVM::CallOp::create(b, type, operands);
}

void Hooks::print(Operation *op, Value list) { call(kPrintHook, {launch, b.i32(siteOf(op)), program, list}); }

void Hooks::fail(Operation *op, Value element) { call(kFailHook, {launch, b.i32(siteOf(op)), program, element}); }

void Hooks::access(Operation *op, KilnAccess kind, Value address, Value mask, Type element, const Index &at,
                   ArrayRef<int64_t> shape, Value strideBytes, Value addresses) {
  int site = siteOf(op);
  Value start = nests.linearElement(at, shape);
  int64_t bytes = memoryBytes(element), elementStep = 1;
  if (at.isVector())
    for (int64_t side : shape.drop_front(at.vectorDim + 1))
      elementStep *= side;
  b.loop(at.width, 1, {}, [&](Value lane, ValueRange) -> SmallVector<Value> {
    auto look = [&]() -> SmallVector<Value> {
      Value where = address;
      if (addresses) {
        where = vector::ExtractOp::create(b, addresses, OpFoldResult(b.indexOf(lane)));
        where = LLVM::IntToPtrOp::create(b, b.ptrType, where);
      } else if (at.isVector()) {
        where = b.offsetBy(where, arith::MulIOp::create(b, lane, strideBytes ? strideBytes : b.i64(bytes)).getResult());
      }
      Value number = arith::AddIOp::create(b, start, arith::MulIOp::create(b, lane, b.i64(elementStep)));
      call(kAccessHook, {launch, b.i32(site), program, number, where, b.i32(bytes), b.i32(static_cast<int64_t>(kind))});
      return {};
    };
    Value here = mask;
    if (here && isa<VectorType>(here.getType()))
      here = vector::ExtractOp::create(b, here, OpFoldResult(b.indexOf(lane)));
    if (here)
      b.branch(here, {}, look, nullptr);
    else
      look();
    return {};
  });
}

void Hooks::checkIndex(Operation *op, Value index, int64_t side, const Index &at, ArrayRef<int64_t> shape) {
  Value outside = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, index, b.i64(side));
  Value element = nests.linearElement(at, shape);
  b.branch(
      outside, {},
      [&]() -> SmallVector<Value> {
        Value asAddress = LLVM::IntToPtrOp::create(b, b.ptrType, index);
        call(kAccessHook,
             {launch, b.i32(siteOf(op)), program, element, asAddress, b.i32(side), b.i32(KILN_ACCESS_INDEX)});
        return {};
      },
      nullptr);
}

void Hooks::storeBegins(Operation *op) {
  Value none = LLVM::ZeroOp::create(b, b.ptrType);
  call(kAccessHook, {launch, b.i32(siteOf(op)), program, b.i64(0), none, b.i32(0), b.i32(KILN_ACCESS_STORE_BEGINS)});
}
