// The scalars that a role's way through its code hangs on, under assumptions about how often loops run.
//
// They are computed as far as that decides something: what is known (constants, a loop's variable) as numbers, anything
// else as a key, which is equal for values that are computed alike from the same things, in whatever role. A run of the
// verifier assumes a number for each key that a loop's bounds or a branch ask for. So two loops run equally often in
// every run if their bounds have the same keys, and else not; and a loop that is peeled, or a prologue with conditions
// of its own, adds up because the numbers do.
//
// A finite number of runs says something about all trip counts because conditions may tell apart only the iterations
// near the ends of a loop (by less than `window`): in between, each does what the one before did, one slot further.
// What tells iterations apart in another way is assumed freely, each time anew.
#pragma once
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <map>

namespace kiln::kgpu {

/// A scalar at one point of a run.
struct Scalar {
  unsigned key = 0;
  std::optional<int64_t> value;    ///< known by itself
  mlir::Operation *loop = nullptr; ///< where not null, `value` is `slope` more in each iteration of this loop
  int64_t slope = 0;
};

/// What one run assumes. Shared by the roles.
class Assumptions {
public:
  /// `run` counts from 0: the first runs take the same trip count for all loops, later ones mix them. `slots`: of the
  /// longest ring.
  Assumptions(unsigned run, int64_t slots);
  /// Runs to make: fewer where nothing `varies`.
  static unsigned runs(bool varies);
  /// How far from the ends of a loop its iterations may be told apart.
  static int64_t window(int64_t slots) { return 2 * slots; }
  int64_t window() const { return window(slots); }

  /// The same for the same parts, in every role.
  unsigned keyOf(llvm::ArrayRef<uint64_t> parts);
  std::optional<int64_t> find(unsigned key) const;
  void assume(unsigned key, int64_t value) { numbers[key] = value; }
  /// A number below `limit` for this key.
  int64_t choose(unsigned key, int64_t limit) const;
  /// How often a loop runs whose end has this key. `outer`: it has loops in it.
  int64_t trips(unsigned key, bool outer) const;
  /// The same where it is known to run very often.
  int64_t manyTrips(unsigned key) const;
  /// Something was assumed beside how often the outer loops run.
  bool varies = false;

private:
  unsigned run;
  int64_t slots;
  std::map<std::vector<uint64_t>, unsigned> keys;
  llvm::DenseMap<unsigned, int64_t> numbers;
};

/// The code of one role (or of the kernel, outside of roles), and what of it matters here.
class Role {
public:
  Role(llvm::StringRef name, mlir::Block &body, int64_t warps);
  /// Ops whose course matters by itself.
  static bool follows(mlir::Operation *op);
  /// Fails, with an error, where what matters stands in a region that cannot be followed.
  mlir::LogicalResult check() const;

  std::string name;
  mlir::Block *body;
  int64_t warps; ///< 0: not known
  /// Ops that are followed, in order, by block.
  llvm::DenseMap<mlir::Block *, std::vector<mlir::Operation *>> steps;
  llvm::DenseSet<mlir::Operation *> relevant;
  llvm::DenseSet<mlir::Value> needed;                 ///< scalars and cursors that something hangs on
  llvm::DenseMap<mlir::Value, mlir::scf::ForOp> ends; ///< values that are the end of a loop
  llvm::DenseSet<mlir::Operation *> outerLoops;       ///< loops with loops in them
  /// Of a loop, a branch or a step: the channels it does steps at.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 2>> channelsIn;

private:
  void keep(mlir::Operation *op, llvm::SmallVectorImpl<mlir::Value> &open);
  void need(mlir::Value value, llvm::SmallVectorImpl<mlir::Value> &open);
};

/// What a key is made of begins with one of these.
enum KeyOrigin : uint64_t { Constant, Root, Unique, Variable, Loop, Computed };

/// Scalars and cursors at one point of a run.
class RoleScalars {
protected:
  RoleScalars(const Role &role, Assumptions &assumed) : role(role), assumed(assumed) {}

  Scalar scalarOf(mlir::Value value);
  std::optional<int64_t> placeOf(mlir::Value cursor);
  /// The number that a value has in this run, assumed where nothing says it.
  int64_t numberOf(mlir::Value value);
  bool decide(mlir::Value condition);
  /// Without assuming anything.
  std::optional<int64_t> known(const Scalar &scalar) const;
  /// Assumes the end of a loop that begins at `begin`. `outer`: it has loops in it.
  void assumeEnd(mlir::Value end, bool outer, int64_t begin, int64_t step);
  /// How often a loop over these bounds runs in this run.
  struct Trips {
    int64_t first = 0, step = 1, count = 0;
    bool assumed = false; ///< the count is
    unsigned key = 0;     ///< the same for loops that run equally often
  };
  Trips tripsOf(mlir::Value begin, mlir::Value end, mlir::Value step, bool outer);

  void set(mlir::Value value, const Scalar &scalar);
  void setPlace(mlir::Value cursor, std::optional<int64_t> place);
  /// What a loop or a branch hands on, and as what.
  void bind(mlir::Value to, mlir::Value from);
  Scalar carried(const Scalar &scalar);
  /// From now on they may be anything; `time` tells what they were before apart.
  void forget(mlir::ValueRange values, int64_t time);
  /// Computes the results of an op without regions; `time` tells its runs apart.
  void followScalars(mlir::Operation *op, int64_t time);

  Scalar compute(mlir::Operation *op, unsigned result);
  Scalar compare(mlir::Operation *op, unsigned key);
  static Scalar opaque(unsigned key) {
    Scalar scalar;
    scalar.key = key;
    return scalar;
  }

  const Role &role;
  Assumptions &assumed;
  llvm::DenseMap<mlir::Value, Scalar> scalars;
  llvm::DenseMap<mlir::Value, int64_t> cursors; ///< places of the ring, counted from 0 without end
  struct Progress {
    int64_t iteration = 0, trips = 0;
    bool assumed = false; ///< the trip count is
  };
  llvm::DenseMap<mlir::Operation *, Progress> progress; ///< of loops that are being followed
};

} // namespace kiln::kgpu
