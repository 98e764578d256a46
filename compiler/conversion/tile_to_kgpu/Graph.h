// The tiles of a function, or of one of its roles, as layout inference sees them: nodes (groups of tiles in one
// layout), classes (nodes joined by the values between them), and links, which say how the layout of one class follows
// from that of another.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/analysis/LayoutRules.h"
#include "compiler/conversion/tile_to_kgpu/Access.h"
#include "dialects/layout/Constructors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace kiln::assign {

/// The machine that a kernel runs on. The defaults hold for every GPU.
struct Machine {
  layout::Threads threads;
  int64_t sharedBytes = 48 << 10; ///< shared memory per cta
  int64_t accessBytes = 16;       ///< widest access of one thread
};

struct Node {
  mlir::Operation *op = nullptr;
  unsigned index = 0; ///< which of the op's groups
  rules::Group group;
  std::optional<AccessShape> access;
  unsigned parent = 0;                    ///< union-find; see Graph::classOf
  double frequency = 1;                   ///< how often the op runs, roughly
  std::optional<layout::Layout> fragment; ///< demanded by an instruction; solve() does not choose
  std::optional<layout::Layout> layout;   ///< the decision of solve()
};

/// An op that changes the shape, as a link between its operands' node and its results' node.
struct Link {
  mlir::Operation *op;
  unsigned operand, result;
};

class Graph {
public:
  /// The graph of the ops in `scope`, which machine.threads run: a kernel without its roles, or the region of a role.
  /// Fails, with a message, on an op that has tiles but no rule.
  static mlir::FailureOr<Graph> build(mlir::Region &scope, const Machine &machine, const AlignmentAnalysis &analysis);

  Machine machine;
  layout::Threads threads; ///< the machine's
  std::vector<Node> nodes;
  llvm::SmallVector<Link> links;

  unsigned classOf(unsigned node) const;
  /// The node that defines a value; none for a floating one.
  std::optional<unsigned> definer(mlir::Value value) const;
  /// A floating value is recomputed in each layout that its uses need: ranges, splats, constants, and cheap arithmetic
  /// and changes of shape on those.
  bool isFloating(mlir::Value value) const { return floating.contains(value); }
  /// Floating values, operands first.
  llvm::ArrayRef<mlir::Value> floatingValues() const { return floatingOrder; }

private:
  explicit Graph(const Machine &machine) : machine(machine), threads(machine.threads) {}
  void noteFloating(mlir::Operation *op);
  void join(unsigned a, unsigned b);

  llvm::DenseMap<mlir::Value, unsigned> definers;
  /// The floating values, with the number of ops that recomputing each takes.
  llvm::DenseMap<mlir::Value, int64_t> floating;
  llvm::SmallVector<mlir::Value> floatingOrder;
};

/// Decides Node::layout of every node.
void solve(Graph &graph);
/// Writes the decisions into the types; adds conversions and copies of floating values where needed.
void rewrite(Graph &graph);

} // namespace kiln::assign
