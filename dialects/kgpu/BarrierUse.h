// Where the barriers of a program instance are: which ops bring one, of whose threads, and whether before or after what
// they do. This is the only place that says so. kiln-insert-barriers and kiln-verify-barriers read it, and the lowering
// emits barriers from it alone, so a barrier that no pass knows of cannot come about. Likewise which ops leave
// something under way that only a wait ends, and which ops wait.
#pragma once
#include "dialects/kgpu/KgpuDialect.h"
#include "mlir/IR/Operation.h"
#include <optional>

namespace kiln::kgpu {

/// A barrier, or half of one.
struct BarrierUse {
  Scope scope = Scope::Cta;
  bool arrives = true;  ///< the thread arrives at it
  bool waits = true;    ///< it goes on only when all have arrived
  bool relaxed = false; ///< arriving orders no memory

  bool isCluster() const { return scope == Scope::Cluster; }
  bool isWhole() const { return arrives && waits; }
};

struct BarrierUses {
  std::optional<BarrierUse> before, after; ///< what the op itself does
};

/// The barriers of `op`: those that are ops, and those that the order of a tile op asks for, of all threads of the
/// instance. (Not those in its regions.)
BarrierUses barriersOf(mlir::Operation *op);

/// What goes on behind the op that begins it. Of each kind, what was begun first is over first.
enum class Flight : uint8_t {
  Product, ///< tensor cores read its factors
  CopyIn,  ///< the copy engine, or copies by threads, read global memory; who receives the slot waits, nobody here
  CopyOut, ///< the copy engine reads shared memory and writes global memory
};

/// What `op` leaves under way, if anything.
std::optional<Flight> flightOf(mlir::Operation *op);

/// A wait: of that kind at most the last `pending` are under way behind it.
struct Wait {
  Flight flight;
  int64_t pending;
  bool readsOnly; ///< what they read has been read, what they write may be under way
};
std::optional<Wait> waitOf(mlir::Operation *op);

/// Ctas of one program instance, as the module of `op` says.
int64_t clusterSize(mlir::Operation *op);

} // namespace kiln::kgpu
