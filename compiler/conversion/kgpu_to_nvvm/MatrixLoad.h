// local_load and local_store by ldmatrix and stmatrix, where layouts of registers and memory are made of matrices of
// eight rows of 16 bytes.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/SharedMemory.h"
#include "dialects/layout/Matrix.h"

namespace kiln::nvvm {

/// How a tile goes to or from memory by matrices.
struct MatrixPlan {
  layout::MatrixRows matrix;
  bool transposed;
};
/// nullopt where the layouts do not allow it, or vectors of `vector` elements are as wide as a row. `align`: what the
/// memory's start is a multiple of.
std::optional<MatrixPlan> planMatrices(const layout::Layout &tile, kgpu::MemType memory, int64_t vector, int64_t align);

/// All registers of the tile.
Registers loadMatrices(Lowering &lowering, const MatrixPlan &plan, kgpu::MemType memory, mlir::Value base,
                       int64_t registers);
/// `values`: the tile's registers. Every lane of a warp takes part.
void storeMatrices(Lowering &lowering, const MatrixPlan &plan, kgpu::MemType memory, mlir::Value base,
                   llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::nvvm
