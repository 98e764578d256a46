// Shared by the files of this folder: the emitter of one kernel as the code of one thread. At its core are the values
// emitted so far and the builder; beside them, services with one job each. Each other .cpp implements one concern,
// named in its first line, and enters its emitters into the table through its add…() function (declared at the end).
//
//     %z = arith.addf %x, %y : tensor<256xf32, blocked [256] vector 2 warps 4>
// becomes, for the two elements that a thread holds,
//     %z0 = arith.addf %x0, %y0 : f32
//     %z1 = arith.addf %x1, %y1 : f32
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/conversion/kgpu_to_nvvm/CodeBuilder.h"
#include "compiler/conversion/kgpu_to_nvvm/Coordinates.h"
#include "compiler/conversion/kgpu_to_nvvm/DeviceLog.h"
#include "compiler/conversion/kgpu_to_nvvm/GlobalMemory.h"
#include "compiler/conversion/kgpu_to_nvvm/Place.h"
#include "compiler/conversion/kgpu_to_nvvm/Program.h"
#include "compiler/conversion/kgpu_to_nvvm/ScalarOps.h"
#include "compiler/conversion/kgpu_to_nvvm/SharedWindow.h"
#include "compiler/conversion/kgpu_to_nvvm/TensorMaps.h"
#include "compiler/target/Target.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <functional>

namespace kiln::nvvm {

class Lowering;

/// Maps op names to the functions that emit the ops.
class EmitTable {
public:
  using Emit = std::function<mlir::LogicalResult(Lowering &, mlir::Operation *)>;

  /// table.add<tile::ReduceOp, emitReduce>() with LogicalResult emitReduce(Lowering &, tile::ReduceOp).
  template <typename Op, mlir::LogicalResult (*emit)(Lowering &, Op)> void add() {
    emitters[Op::getOperationName()] = [](Lowering &lowering, mlir::Operation *op) {
      return emit(lowering, mlir::cast<Op>(op));
    };
  }
  /// Registers one function for several ops.
  template <mlir::LogicalResult (*emit)(Lowering &, mlir::Operation *), typename... Ops> void addAll() {
    (void(emitters[Ops::getOperationName()] = emit), ...);
  }
  const Emit *find(mlir::Operation *op) const {
    auto found = emitters.find(op->getName().getStringRef());
    return found == emitters.end() ? nullptr : &found->second;
  }

private:
  llvm::StringMap<Emit> emitters;
};

class Lowering {
public:
  Lowering(mlir::func::FuncOp kernel, const Target &target, const EmitTable &table);
  mlir::LogicalResult run();

  //--- The core
  /// The registers of a value that has been emitted (constants are materialised where they are used).
  llvm::ArrayRef<mlir::Value> get(mlir::Value value);
  mlir::Value scalar(mlir::Value value) { return get(value).front(); }
  void set(mlir::Value value, Registers registers);
  mlir::LogicalResult emitBlock(mlir::Block &block);
  /// Emits the ops of a block up to its terminator and returns the terminator's operands as registers.
  mlir::FailureOr<Registers> emitBody(mlir::Block &block);

  mlir::func::FuncOp source;    ///< the kernel in kgpu IR, unchanged while it is emitted
  mlir::LLVM::LLVMFuncOp entry; ///< the function being emitted
  CodeBuilder b;                ///< at the place of the op being emitted, with its location
  const Target &target;
  const AlignmentAnalysis alignment; ///< of `source`
  const bool overlaps;               ///< the launch overlaps with the one before and the one after
  const int64_t maxRegisters;        ///< per thread; 0: no limit was asked for

  //--- Services
  Place place;             ///< where this thread is
  Coordinates coordinates; ///< which element a register holds
  Program program;         ///< which program instance this is
  SharedWindow shared;     ///< where shared memory begins
  GlobalMemory global;     ///< what is written, and in which order
  DeviceLog log;           ///< reports to the host
  TensorMaps tensorMaps;   ///< parameters for the copy engine
  ScalarOps scalars;       ///< arithmetic on single elements

private:
  void createEntry();
  void bindArguments();
  /// Adds an entry to the metadata that the launch reads.
  void describeCuda(llvm::StringRef name, mlir::Attribute value);
  /// Emits the op between the barriers that it brings.
  mlir::LogicalResult emitOp(mlir::Operation *op);
  /// In Barrier.cpp. Only emitOp calls it, so that no emitter makes a barrier that kiln-verify-barriers has not seen.
  void emitBarrier(const kgpu::BarrierUse &use);
  Registers constantRegisters(mlir::Operation *op);

  const EmitTable &table;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Registers>> values; ///< by pointer: results of get() stay valid
  llvm::SmallVector<std::unique_ptr<Registers>> constants;        ///< results of get() for constants
};

/// In WarpgroupMma.cpp: the registers of an accumulator after a wait for all but the last `pending` products.
Registers waitForProducts(Lowering &lowering, llvm::ArrayRef<mlir::Value> registers, mlir::Type element,
                          int64_t pending);

/// Any arith or math op, register by register.
mlir::LogicalResult emitElementwise(Lowering &lowering, mlir::Operation *op);

/// Moves ops that access no memory to just before the first op that needs them; all others keep their order. Tiles are
/// emitted op by op, but where registers are scarce, the elements of one access should go all the way first.
void orderByUse(mlir::Block &block);

// One per file.
void addControlFlow(EmitTable &table);
void addElementwise(EmitTable &table);
void addShape(EmitTable &table);
void addMemory(EmitTable &table);
void addDescriptors(EmitTable &table);
void addAtomics(EmitTable &table);
void addHooks(EmitTable &table);
void addLibrary(EmitTable &table); ///< inline_asm, extern_call
void addProgram(EmitTable &table); ///< program_id, num_programs, assume, launch_dependents,
                                   ///< wait_for_grid, persistence
void addTensorMaps(EmitTable &table);
void addBarriers(EmitTable &table);
void addRoles(EmitTable &table);
void addChannels(EmitTable &table);     ///< channel, cursor, acquire, commit, receive, release
void addCopies(EmitTable &table);       ///< copy_in, copy_out, fence_async
void addThreadCopies(EmitTable &table); ///< copy_block, copy_tile
void addMbarriers(EmitTable &table);
void addConvert(EmitTable &table);
void addReduce(EmitTable &table);
void addScan(EmitTable &table);
void addCompare(EmitTable &table);      ///< kgpu.compare
void addGather(EmitTable &table);       ///< inside a warp
void addKeep(EmitTable &table);         ///< kgpu.keep
void addAny(EmitTable &table);          ///< kgpu.any
void addRescale(EmitTable &table);      ///< kgpu.rescale
void addDot(EmitTable &table);          ///< kgpu.dot
void addWarpgroupMma(EmitTable &table); ///< kgpu.warpgroup_mma, kgpu.mma_wait
void addWarpMma(EmitTable &table);      ///< kgpu.warp_mma
void addSharedMemory(EmitTable &table); ///< alloc, slot, local_*

} // namespace kiln::nvvm
