// local_load and local_store by ldmatrix and stmatrix, for layouts of registers and memory that consist of matrices of
// eight rows of 16 bytes.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/SharedMemory.h"
#include "dialects/layout/Matrix.h"

namespace kiln::nvvm {

/// How matrix instructions move a tile to or from memory.
struct MatrixPlan {
  layout::MatrixRows matrix;
  bool transposed;
};
/// std::nullopt where the layouts do not allow it, or where vectors of `vector` elements are as wide as a matrix
/// row already. `align`: the alignment of the memory's start.
std::optional<MatrixPlan> planMatrices(const layout::Layout &tile, kgpu::MemType memory, int64_t vector, int64_t align);

/// Loads all registers of the tile.
Registers loadMatrices(Lowering &lowering, const MatrixPlan &plan, kgpu::MemType memory, mlir::Value base,
                       int64_t registers);
/// Stores the tile's registers, `values`. Every lane of a warp takes part.
void storeMatrices(Lowering &lowering, const MatrixPlan &plan, kgpu::MemType memory, mlir::Value base,
                   llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::nvvm
