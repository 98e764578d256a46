// The builder of one thread's code: constants, instructions by name, addresses, conversions of registers to bits and to
// their form in memory. It does not depend on the kernel.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Values.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln::nvvm {

/// Address spaces of !llvm.ptr.
constexpr unsigned kGlobal = 1, kShared = 3, kCluster = 7;

class CodeBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  //--- Constants
  mlir::Value i1(bool value);
  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value zero(mlir::Type type);
  mlir::Value constant(mlir::Type type, mlir::Attribute value);

  //--- Ptx.cpp: instructions by name
  /// llvm.call_intrinsic; a null result type is void (and returns null).
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  /// Inline PTX. `pure`: depends on the operands alone (may be merged, moved or dropped); otherwise it is volatile and
  /// clobbers memory.
  Registers ptx(llvm::StringRef text, llvm::StringRef constraints, llvm::ArrayRef<mlir::Type> results,
                mlir::ValueRange operands, bool pure = false);
  /// Keeps ptxas from moving instructions: what precedes it is issued before what follows it.
  void hold();
  /// In Barrier.cpp: a barrier of the warp, after which one lane may act for all. Orders nothing between warps.
  void syncWarp();
  /// In Any.cpp: whether one of the conditions holds in some lane of the warp.
  mlir::Value anyInWarp(llvm::ArrayRef<mlir::Value> conditions);

  //--- Registers
  mlir::Type globalPointer() { return mlir::LLVM::LLVMPointerType::get(getContext(), kGlobal); }
  /// A register as an integer of its width in memory (i1: i8, pointer: i64) and back.
  mlir::Value toBits(mlir::Value value);
  mlir::Value fromBits(mlir::Value bits, mlir::Type registerType);
  /// A register to its form in memory (memoryType) and back.
  mlir::Value toMemory(mlir::Value value, mlir::Type element);
  mlir::Value fromMemory(mlir::Value value, mlir::Type element);
  /// A register to its form in vectors that are loaded or stored (tile::memoryType) and back.
  mlir::Value toTransfer(mlir::Value value, mlir::Type element);
  mlir::Value fromTransfer(mlir::Value value, mlir::Type element);

  //--- Addresses
  /// ptr + bytes (i32, i64 or a constant), without inbounds.
  mlir::Value offsetBy(mlir::Value pointer, mlir::Value bytes);
  mlir::Value offsetBy(mlir::Value pointer, int64_t bytes);
  /// The 32-bit address of a pointer to shared memory.
  mlir::Value addressOf(mlir::Value pointer);
};

/// The 32-bit word that a 16-bit register was unpacked from, and which half it is; null if it was made another way.
std::pair<mlir::Value, unsigned> wordOf(mlir::Value value);

} // namespace kiln::nvvm
