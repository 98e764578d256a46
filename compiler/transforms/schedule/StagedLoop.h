// The loop of the schedules `simple` and `lanes`: it loads blocks some iterations ahead of their products.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::schedule {

/// All threads copy and multiply.
constexpr llvm::StringLiteral kSimple = "simple";
/// The same, where each warp should copy what it multiplies.
using kgpu::kLanes;

/// A load of the loop that goes through a slot.
struct StagedLoad {
  mlir::Operation *op = nullptr; ///< tile.desc_load or tile.load
  kgpu::MemType memory;          ///< layout of one slot

  mlir::RankedTensorType block() const { return mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType()); }
};

struct StagedLoop {
  mlir::scf::ForOp loop;
  size_t products = 0; ///< number of products in it
  llvm::SmallVector<StagedLoad, 2> loads;
  /// The loop's ops that compute addresses.
  llvm::SetVector<mlir::Operation *> addresses;
  llvm::SmallVector<bool> ahead; ///< by carried value: whether addresses depend on it
  /// Enclosing loops, outermost first.
  llvm::SmallVector<mlir::scf::ForOp, 2> around;

  /// Bytes of one slot.
  int64_t slotBytes() const;
};

/// The one loop of a kernel that multiplies what it loads, if each such load can be made ahead of its iteration in
/// copies of at least four bytes. Nothing, with a sentence in `why`, if there is none.
std::optional<StagedLoop> findStagedLoop(mlir::func::FuncOp kernel, const AlignmentAnalysis &alignment,
                                         std::string &why);

/// MaterializeSimple.cpp: writes the schedule out with `stages` slots. `warpsApart`: each warp should copy what it
/// multiplies.
void materializeSimple(mlir::func::FuncOp kernel, StagedLoop staged, int32_t stages, bool warpsApart);

} // namespace kiln::schedule
