// The builder of CPU code: constants, vectors, loops and branches, and single accesses to memory. It does not depend on
// the kernel.
//
// A lane of a vector has the element's arithmetic type, except that a pointer is a scalar !llvm.ptr but an i64 in
// vectors.
#pragma once
#include "compiler/conversion/tile_to_cpu/Index.h"
#include "compiler/conversion/tile_to_cpu/Shape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln::cpu {

class CodeBuilder : public mlir::ImplicitLocOpBuilder {
public:
  CodeBuilder(mlir::Location loc, mlir::MLIRContext *context)
      : ImplicitLocOpBuilder(loc, context), ptrType(mlir::LLVM::LLVMPointerType::get(context)) {}

  //--- Types
  const mlir::Type ptrType; ///< !llvm.ptr
  mlir::Type scalarType(mlir::Type element);
  /// The type of one element, or of a vector of them, as `at` asks.
  mlir::Type laneType(mlir::Type element, const Index &at);

  //--- Constants and vectors
  mlir::Value i64(int64_t value);
  mlir::Value i32(int64_t value);
  mlir::Value splatConstant(mlir::Type type, mlir::Attribute value);
  mlir::Value zeroOf(mlir::Type type);
  mlir::Value iota(mlir::Type element, int64_t width);
  mlir::Value indexOf(mlir::Value value);
  mlir::Value toVector(mlir::Value value, int64_t width);
  /// Transposes a square of as many vectors as they have lanes.
  void turnOver(llvm::MutableArrayRef<mlir::Value> columns);

  //--- Nest.cpp: control flow
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>()>;
  using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
  /// A loop from 0 to `count` by `step` in the current block; the body gets the induction variable and carried values.
  llvm::SmallVector<mlir::Value> loop(int64_t count, int64_t step, mlir::ValueRange inits, LoopBody body);
  llvm::SmallVector<mlir::Value> branch(mlir::Value condition, mlir::TypeRange types, Body then, Body otherwise);

  //--- Access.cpp: one access
  mlir::Value offsetBy(mlir::Value pointer, mlir::Value bytes);
  mlir::Value offsetBy(mlir::Value pointer, int64_t bytes);
  /// The addresses of lanes that are `strideBytes` apart.
  mlir::Value laneAddresses(mlir::Value base, mlir::Value strideBytes, int64_t width);
  mlir::Value toMemory(mlir::Value value, mlir::Type element);
  mlir::Value fromMemory(mlir::Value value, mlir::Type element);
  mlir::Value loadFrom(mlir::Value address, mlir::Type element, int64_t width, bool isVolatile = false);
  void storeTo(mlir::Value address, mlir::Value value, mlir::Type element);
  mlir::Value maskedLoad(mlir::Value address, mlir::Value mask, mlir::Value other, mlir::Type element, int64_t width);
  void maskedStore(mlir::Value address, mlir::Value mask, mlir::Value value, mlir::Type element);
  mlir::Value gather(mlir::Value addresses, mlir::Value mask, mlir::Value other, mlir::Type element, int64_t width);
  void scatter(mlir::Value addresses, mlir::Value mask, mlir::Value value, mlir::Type element);
};

} // namespace kiln::cpu
