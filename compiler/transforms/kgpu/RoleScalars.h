// The scalars that steer a role's path through its code, under assumptions about how often loops run.
//
// They are computed only as far as something depends on them. Known values (constants, induction variables) are
// numbers. Anything else is a key, which is equal for values computed alike from the same things, in whatever role. A
// run of the verifier assumes a number for each key that a loop bound or a branch needs. So two loops run equally often
// in every run if and only if their bounds have the same keys. A peeled loop, or a prologue with its own conditions,
// checks out because the numbers do.
//
// A finite number of runs proves something about all trip counts because conditions may distinguish only iterations
// near the ends of a loop (closer than `window`): in between, each iteration does what the previous one did, one slot
// further. The outcome of any other condition is assumed freely, each time anew.
#pragma once
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <map>

namespace kiln::kgpu {

/// A scalar at one point of a run.
struct Scalar {
  unsigned key = 0;
  std::optional<int64_t> value;    ///< known by itself
  mlir::Operation *loop = nullptr; ///< if not null, `value` grows by `slope` in each iteration of this loop
  int64_t slope = 0;
};

/// The assumptions of one run, shared by the roles.
class Assumptions {
public:
  /// `run` counts from 0: the first runs use the same trip count for all loops, later ones mix them. `slots`: of the
  /// longest ring.
  Assumptions(unsigned run, int64_t slots);
  /// The number of runs to make: fewer if nothing `varies`.
  static unsigned runs(bool varies);
  /// How far from the ends of a loop conditions may distinguish its iterations.
  static int64_t window(int64_t slots) { return 2 * slots; }
  int64_t window() const { return window(slots); }

  /// The same key for the same parts, in every role.
  unsigned keyOf(llvm::ArrayRef<uint64_t> parts);
  std::optional<int64_t> find(unsigned key) const;
  void assume(unsigned key, int64_t value) { numbers[key] = value; }
  /// A number below `limit` for this key.
  int64_t choose(unsigned key, int64_t limit) const;
  /// The trip count of a loop whose end has this key. `outer`: it contains loops.
  int64_t trips(unsigned key, bool outer) const;
  /// How many steps before it begins a loop ends that does not run.
  int64_t shortfall(unsigned key) const;
  /// The trip count of a loop known to run very often.
  int64_t manyTrips(unsigned key) const;
  /// Something other than the trip counts of outer loops was assumed.
  bool varies = false;

private:
  unsigned run;
  int64_t slots;
  std::map<std::vector<uint64_t>, unsigned> keys;
  llvm::DenseMap<unsigned, int64_t> numbers;
};

/// The code of one role (or of the kernel outside its roles), and which parts of it matter here.
class Role {
public:
  Role(llvm::StringRef name, mlir::Block &body, int64_t warps);
  /// Ops that a run must visit.
  static bool follows(mlir::Operation *op);
  /// Fails, with an error, if such an op is in a region that cannot be followed.
  mlir::LogicalResult check() const;

  std::string name;
  mlir::Block *body;
  int64_t warps; ///< 0: unknown
  /// Ops to visit, in order, by block.
  llvm::DenseMap<mlir::Block *, std::vector<mlir::Operation *>> steps;
  llvm::DenseSet<mlir::Operation *> relevant;
  llvm::DenseSet<mlir::Value> needed;                 ///< scalars and cursors that something depends on
  llvm::DenseMap<mlir::Value, mlir::scf::ForOp> ends; ///< values that are the upper bound of a loop
  /// The loops that begin at a value, or step by it.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::scf::ForOp, 1>> starts;
  llvm::DenseSet<mlir::Operation *> outerLoops; ///< loops that contain loops
  /// For a loop, a branch or a step: the channels with steps inside it.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 2>> channelsIn;

private:
  void keep(mlir::Operation *op, llvm::SmallVectorImpl<mlir::Value> &open);
  void need(mlir::Value value, llvm::SmallVectorImpl<mlir::Value> &open);
};

/// The first part of a key: where it comes from.
enum KeyOrigin : uint64_t { Constant, Root, Unique, Variable, Loop, Computed };

/// Scalars and cursors at one point of a run.
class RoleScalars {
protected:
  RoleScalars(const Role &role, Assumptions &assumed) : role(role), assumed(assumed) {}

  Scalar scalarOf(mlir::Value value);
  std::optional<int64_t> placeOf(mlir::Value cursor);
  /// The number that a value has in this run, assumed if nothing determines it.
  int64_t numberOf(mlir::Value value);
  bool decide(mlir::Value condition);
  /// The number, if known without a new assumption.
  std::optional<int64_t> known(const Scalar &scalar) const;
  /// Assumes the upper bound of a loop, unless that is a constant more than the lower one, which is `begin`. `outer`:
  /// the loop contains loops.
  void assumeEnd(mlir::Value lowerBound, int64_t begin, mlir::Value end, bool outer, int64_t step);
  /// How often a loop with these bounds runs in this run.
  struct Trips {
    int64_t first = 0, step = 1, count = 0;
    bool assumed = false; ///< whether the count is assumed
    unsigned key = 0;     ///< equal for loops that run equally often
  };
  /// The step of a loop in this run.
  int64_t stepOf(mlir::Value step);
  Trips tripsOf(mlir::Value begin, mlir::Value end, mlir::Value step, bool outer);

  void set(mlir::Value value, const Scalar &scalar);
  /// Assumes the end of a loop to come as soon as all three of its bounds have been reached.
  void foresee(mlir::scf::ForOp loop);
  void setPlace(mlir::Value cursor, std::optional<int64_t> place);
  /// Passes a value on through a loop or a branch.
  void bind(mlir::Value to, mlir::Value from);
  Scalar carried(const Scalar &scalar);
  /// From now on these may have any value; `time` distinguishes them from what they were before.
  void forget(mlir::ValueRange values, int64_t time);
  /// Computes the results of an op without regions; `time` distinguishes its executions.
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
  llvm::DenseMap<mlir::Value, int64_t> cursors; ///< positions in the ring, counted from 0 without wrapping
  struct Progress {
    int64_t iteration = 0, trips = 0;
    bool assumed = false; ///< whether the trip count is assumed
  };
  llvm::DenseMap<mlir::Operation *, Progress> progress; ///< of loops that are being followed
};

} // namespace kiln::kgpu
