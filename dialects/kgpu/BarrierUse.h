// The barriers of a program instance: which ops bring one, for which threads, and whether before or after what the op
// does. This is the only place that says so. kiln-insert-barriers and kiln-verify-barriers read it, and the lowering
// emits barriers from it alone, so no barrier exists that the passes do not know of. This file also says which ops
// leave something in flight that only a wait ends, and which ops wait.
#pragma once
#include "dialects/kgpu/KgpuDialect.h"
#include "mlir/IR/Operation.h"
#include <optional>

namespace kiln::kgpu {

/// A barrier, or half of one.
struct BarrierUse {
  Scope scope = Scope::Cta;
  bool arrives = true;  ///< the thread arrives at it
  bool waits = true;    ///< it continues only when all have arrived
  bool relaxed = false; ///< arriving orders no memory

  bool isCluster() const { return scope == Scope::Cluster; }
  bool isWhole() const { return arrives && waits; }
};

struct BarrierUses {
  std::optional<BarrierUse> before, after; ///< relative to what the op itself does
};

/// The barriers of `op`: ops that are barriers, and the barriers of all threads of the instance that the memory order
/// of a tile op needs. (Not those in its regions.)
BarrierUses barriersOf(mlir::Operation *op);

/// An atomic that releases everything before it in the program: copies to global memory, too, have to be there.
bool releasesCopies(mlir::Operation *op);

/// Work that continues after the op that starts it. Within each kind, operations complete in the order in which they
/// start.
enum class Flight : uint8_t {
  Product, ///< tensor cores read its operands
  CopyIn,  ///< the copy engine, or copies by threads, read global memory; only the receiver of the slot waits for it
  CopyOut, ///< the copy engine reads shared memory and writes global memory
};

/// The work that `op` leaves in flight, if any.
std::optional<Flight> flightOf(mlir::Operation *op);

/// A wait: after it, at most the last `pending` of that kind are in flight.
struct Wait {
  Flight flight;
  int64_t pending;
  bool readsOnly; ///< their reads are done; their writes may still be in flight
};
std::optional<Wait> waitOf(mlir::Operation *op);

/// Ctas of one program instance, as the module around `op` says.
int64_t clusterSize(mlir::Operation *op);

} // namespace kiln::kgpu
