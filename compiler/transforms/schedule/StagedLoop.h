// The loop of the schedule `simple`: blocks that it multiplies are loaded some iterations ahead of their products.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::schedule {

/// A load of the loop that goes through a slot.
struct StagedLoad {
  mlir::Operation *op = nullptr; ///< tile.desc_load or tile.load
  kgpu::MemType memory;          ///< where its slots hold it

  mlir::RankedTensorType block() const { return mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType()); }
};

struct StagedLoop {
  mlir::scf::ForOp loop;
  size_t products = 0; ///< in it
  llvm::SmallVector<StagedLoad, 2> loads;
  /// What of the loop says where to load: its ops, and the values it carries for that.
  llvm::SetVector<mlir::Operation *> addresses;
  llvm::SmallVector<bool> ahead; ///< by carried value
  /// Loops around it, outermost first.
  llvm::SmallVector<mlir::scf::ForOp, 2> around;

  /// Bytes of one slot.
  int64_t slotBytes() const;
};

/// The one loop of a kernel that multiplies what it loads, if each such load can be made ahead of its iteration by
/// copies of at least four bytes. Nothing, with a sentence in `why`, where there is none.
std::optional<StagedLoop> findStagedLoop(mlir::func::FuncOp kernel, const AlignmentAnalysis &alignment,
                                         std::string &why);

/// MaterializeSimple.cpp: writes the schedule out with so many slots.
void materializeSimple(mlir::func::FuncOp kernel, StagedLoop staged, int32_t stages);

} // namespace kiln::schedule
