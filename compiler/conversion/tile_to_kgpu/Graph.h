// The tiles of a function, or of one of its roles, as inference sees them: nodes (groups of tiles in one layout),
// classes of nodes joined by the values between them, and links, where the layout of one class follows from that of
// another.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/analysis/LayoutRules.h"
#include "compiler/conversion/tile_to_kgpu/Access.h"
#include "dialects/layout/Constructors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace kiln::assign {

/// What a kernel runs on. The defaults are what every GPU has.
struct Machine {
  layout::Threads threads;
  int64_t sharedBytes = 48 << 10; ///< shared memory of one cta
  int64_t accessBytes = 16;       ///< the widest access of one thread
};

struct Node {
  mlir::Operation *op = nullptr;
  unsigned index = 0; ///< which of the op's groups
  rules::Group group;
  std::optional<AccessShape> access;
  unsigned parent = 0;                    ///< union-find; Graph::classOf
  double frequency = 1;                   ///< how often the op runs, roughly
  std::optional<layout::Layout> fragment; ///< what an instruction asks for; solve() does not choose
  std::optional<layout::Layout> layout;   ///< what solve() decides
};

/// An op that changes the shape, between its operands' node and its results'.
struct Link {
  mlir::Operation *op;
  unsigned operand, result;
};

class Graph {
public:
  /// Of the ops in `scope`: a kernel without its roles, or the region of a role, which is what machine.threads run.
  /// Fails, with a message, on an op that has tiles but no rule.
  static mlir::FailureOr<Graph> build(mlir::Region &scope, const Machine &machine, const AlignmentAnalysis &analysis);

  Machine machine;
  layout::Threads threads; ///< the machine's
  std::vector<Node> nodes;
  llvm::SmallVector<Link> links;

  unsigned classOf(unsigned node) const;
  /// The node that makes a value; none for a floating one.
  std::optional<unsigned> definer(mlir::Value value) const;
  /// A value that is computed in each layout it is wanted in: ranges, splats, constants, and cheap arithmetic and
  /// changes of shape on those.
  bool isFloating(mlir::Value value) const { return floating.contains(value); }
  /// Floating values, operands first.
  llvm::ArrayRef<mlir::Value> floatingValues() const { return floatingOrder; }

private:
  explicit Graph(const Machine &machine) : machine(machine), threads(machine.threads) {}
  void noteFloating(mlir::Operation *op);
  void join(unsigned a, unsigned b);

  llvm::DenseMap<mlir::Value, unsigned> definers;
  /// With the number of ops it takes to compute the value.
  llvm::DenseMap<mlir::Value, int64_t> floating;
  llvm::SmallVector<mlir::Value> floatingOrder;
};

/// Decides Node::layout of every node.
void solve(Graph &graph);
/// Writes the decisions into the types, with conversions and copies of floating values where they are needed.
void rewrite(Graph &graph);

} // namespace kiln::assign
