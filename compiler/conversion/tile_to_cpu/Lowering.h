// Shared by the files of this folder: the emitter of one kernel. The plan (Plan.h) says what happens in which order,
// and this class walks it. `values` and `frame` hold what has been emitted, code goes through `b`, and the services
// have one job each. Ops that are not lazy tiles have emitters, one file per concern, declared at the end.
#pragma once
#include "compiler/conversion/tile_to_cpu/Plan.h"
#include "compiler/conversion/tile_to_cpu/Tiles.h"
#include "compiler/target/Target.h"
#include "llvm/ADT/SetVector.h"
#include <memory>

namespace kiln::cpu {

/// True if the op reads a scalar in an uncounted loop, which may wait for another program instance to write it.
bool mayWait(mlir::Operation *op);

class KernelLowering {
public:
  KernelLowering(mlir::func::FuncOp kernel, const Target &target, Check check);
  mlir::LogicalResult run();

  //--- The core
  CodeBuilder b;
  Values values;
  Nests nests;
  Frame frame;
  Buffers buffers;

  //--- Services
  Hooks hooks;
  Shapes shapes;
  const AlignmentAnalysis alignment;
  Tiles tiles;
  const Target &target;
  const Check check;
  std::unique_ptr<Plan> plan;

  /// The storage for a value: that of an operand that is no longer needed, a buffer of the loop, or a new one.
  Storage allocateFor(mlir::Value value);
  mlir::LogicalResult writeTile(mlir::Value tile, const Storage &target);
  void copyBuffer(const Storage &from, const Storage &to);
  /// In Walk.cpp: chooses the dimension along which vectors run, and the order of the others.
  Walk chooseWalk(llvm::ArrayRef<int64_t> shape, int reduceAxis, int64_t lanes) const;
  int64_t lanes() const { return std::max<int64_t>(1, target.vectorBytes / 4); }

private:
  //--- Kernel.cpp: the entry function, arguments, program ids, the walk over steps
  void createEntry();
  void bindArguments();
  mlir::LogicalResult emitBlock(mlir::Block *block);
  mlir::LogicalResult emitOp(mlir::Operation *op);
  mlir::Value emitScalarLoad(tile::LoadOp op);
  void emitScalarStore(tile::StoreOp op);
  mlir::LogicalResult emitPrint(tile::PrintOp op);
  void emitAssert(tile::AssertOp op, const Index *at);

  //--- Group.cpp, Walk.cpp, Full.cpp: groups that share a nest
  mlir::LogicalResult emitGroup(const Step &step);
  void emitRoots(const Step &step, OpenNest &open, const Walk &walk, llvm::ArrayRef<Storage> targets,
                 llvm::ArrayRef<bool> identities, llvm::SmallVectorImpl<mlir::Value> &yields);
  void preferDimension(Walk &walk, const Step &step);
  int gathersAlong(mlir::Value value, int dim, llvm::DenseSet<std::pair<mlir::Value, int>> &seen);
  bool splitTurned(const Step &step, llvm::SmallVectorImpl<Step> &parts);
  void writeTransposed(mlir::Value value, const Storage &target, const Walk &walk, const Index &at);
  mlir::Value wholeRow(mlir::Value mask, unsigned dim, const Index &at);
  void collectMasks(mlir::Value value, llvm::SetVector<mlir::Value> &masks, llvm::DenseSet<mlir::Value> &seen,
                    bool top);
  mlir::Value fullRow(const Step &step, OpenNest &open, const Walk &walk, llvm::SmallVectorImpl<mlir::Value> &masks);

  //--- ControlFlow.cpp
  mlir::LogicalResult emitFor(mlir::scf::ForOp op);
  mlir::LogicalResult emitIf(mlir::scf::IfOp op);
  mlir::LogicalResult emitWhile(mlir::scf::WhileOp op);
  /// The buffers of the loop block being emitted: those of its tile arguments first, then spares.
  struct Pool {
    llvm::SmallVector<mlir::Value> pointers;
    llvm::SmallVector<int64_t> bytes;
    int lifetime = -1;
  };
  /// Puts the tiles that a loop starts with into buffers of its own.
  mlir::LogicalResult placeTiles(llvm::MutableArrayRef<mlir::OpOperand> inits, Pool &pool,
                                 llvm::SmallVectorImpl<mlir::Value> &pointers);
  llvm::SmallVector<mlir::Value> carryOut(mlir::Block *block, Pool &pool, mlir::ValueRange operands,
                                          llvm::ArrayRef<int64_t> extraBytes);

  mlir::func::FuncOp kernel, entry;
  mlir::Value programIds[3], gridSizes[3], framePointer;
  /// Where Carry roots wrote: maps (terminator, operand) to the buffer.
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, Storage> carriedTo;
  Pool *pool = nullptr;
  bool splitsPairsSomewhere = false;
  bool waits = false; ///< some loop may wait for another program instance
};

// Emitters of ops on whole tiles.
mlir::LogicalResult emitDot(KernelLowering &lowering, tile::DotOp op);
mlir::LogicalResult emitScan(KernelLowering &lowering, tile::ScanOp op);
mlir::LogicalResult emitSort(KernelLowering &lowering, tile::SortOp op);
mlir::LogicalResult emitTopk(KernelLowering &lowering, tile::TopkOp op);
mlir::LogicalResult emitGather(KernelLowering &lowering, tile::GatherOp op);
mlir::LogicalResult emitHistogram(KernelLowering &lowering, tile::HistogramOp op);
/// Returns the old value (zero where masked off), of one element of a tile, or of a scalar if `at` is null.
mlir::Value emitAtomic(KernelLowering &lowering, mlir::Operation *op, const Index *at);

//--- Reduce.cpp: parts of reductions; Group.cpp makes their nest
/// The x with combine(x, y) = y for all y; null if the region has no known form.
mlir::TypedAttr identityOf(CodeBuilder &b, tile::ReduceOp op);
llvm::SmallVector<mlir::Value> foldLanes(KernelLowering &lowering, tile::ReduceOp op,
                                         llvm::SmallVector<mlir::Value> lanes, int64_t width);
void storeReduced(KernelLowering &lowering, tile::ReduceOp op, mlir::ValueRange values, const Index &at,
                  llvm::ArrayRef<Storage> results);

} // namespace kiln::cpu
