// A forward dataflow walk over structured control flow (scf.for, scf.if, scf.while), the only kind tile IR has.
//
// Every op is visited in program order with the facts of its operands known; loops are repeated from the facts of their
// initial values until the loop-carried facts stop changing (so the resulting facts hold on every iteration). MLIR's
// dataflow solver would add liveness and constant propagation, which tile IR has no use for, at several times the
// compile time.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace kiln {

/// CRTP base. `Derived` provides
///   Fact pessimistic(Value) const;                         what holds of any value of this type
///   Fact join(Value, const Fact &, const Fact &) const;    what holds if either holds
///   Fact entry(BlockArgument);                             facts of a function argument
///   Fact inductionVariable(scf::ForOp);
///   std::optional<Fact> loopCarried(scf::ForOp, unsigned); an invariant known without iterating
///   void transfer(Operation *);                            calls set() for the results of a plain op
/// Facts hold for the IR as it was when run() ended. Values created later get pessimistic answers, and an analysis must
/// not be asked about erased values.
template <typename Derived, typename Fact> class StructuredForward {
public:
  const Fact &get(mlir::Value value) const {
    std::unique_ptr<Fact> &slot = facts[value];
    if (!slot)
      slot = std::make_unique<Fact>(self().pessimistic(value));
    return *slot;
  }

protected:
  /// How many times a loop-carried fact may change before it is given up as unknown.
  static constexpr unsigned kPatience = 3;

  void run(mlir::Operation *root) {
    root->walk<mlir::WalkOrder::PreOrder>([&](mlir::func::FuncOp func) {
      if (func.isDeclaration())
        return mlir::WalkResult::skip();
      for (mlir::BlockArgument argument : func.getArguments())
        set(argument, self().entry(argument));
      visitBlock(func.front());
      return mlir::WalkResult::skip();
    });
  }

  void set(mlir::Value value, Fact fact) {
    std::unique_ptr<Fact> &slot = facts[value];
    if (slot)
      *slot = std::move(fact);
    else
      slot = std::make_unique<Fact>(std::move(fact));
  }
  void copy(mlir::Value to, mlir::Value from) { set(to, Fact(get(from))); }

private:
  Derived &self() { return static_cast<Derived &>(*this); }
  const Derived &self() const { return static_cast<const Derived &>(*this); }

  void visitBlock(mlir::Block &block) {
    for (mlir::Operation &op : block)
      visit(&op);
  }

  void visit(mlir::Operation *op) {
    if (auto forOp = mlir::dyn_cast<mlir::scf::ForOp>(op))
      return visitFor(forOp);
    if (auto whileOp = mlir::dyn_cast<mlir::scf::WhileOp>(op))
      return visitWhile(whileOp);
    if (auto ifOp = mlir::dyn_cast<mlir::scf::IfOp>(op))
      return visitIf(ifOp);
    self().transfer(op);
    // Combine regions and anything else with a body: nothing is known about their arguments.
    for (mlir::Region &region : op->getRegions())
      for (mlir::Block &block : region) {
        for (mlir::BlockArgument argument : block.getArguments())
          set(argument, self().pessimistic(argument));
        visitBlock(block);
      }
  }

  /// Weakens the fact of `carried` by that of `incoming`; true if it changed.
  bool weaken(mlir::Value carried, mlir::Value incoming, unsigned round) {
    Fact next = self().join(carried, get(carried), get(incoming));
    if (next == get(carried))
      return false;
    set(carried, round < kPatience ? std::move(next) : self().pessimistic(carried));
    return true;
  }

  void visitFor(mlir::scf::ForOp op) {
    set(op.getInductionVar(), self().inductionVariable(op));
    unsigned count = op.getNumRegionIterArgs();
    llvm::SmallVector<bool> fixed(count, false);
    for (unsigned i = 0; i < count; ++i) {
      if (std::optional<Fact> known = self().loopCarried(op, i)) {
        set(op.getRegionIterArg(i), std::move(*known));
        fixed[i] = true;
      } else {
        copy(op.getRegionIterArg(i), op.getInitArgs()[i]);
      }
    }
    bool changed = true;
    for (unsigned round = 0; changed; ++round) {
      changed = false;
      visitBlock(*op.getBody());
      for (unsigned i = 0; i < count; ++i)
        if (!fixed[i])
          changed |= weaken(op.getRegionIterArg(i), op.getYieldedValues()[i], round);
    }
    for (unsigned i = 0; i < count; ++i)
      copy(op.getResult(i), op.getRegionIterArg(i));
  }

  void visitWhile(mlir::scf::WhileOp op) {
    auto condition = op.getConditionOp();
    auto carried = op.getBeforeArguments();
    for (auto [argument, init] : llvm::zip(carried, op.getInits()))
      copy(argument, init);
    bool changed = true;
    for (unsigned round = 0; changed; ++round) {
      changed = false;
      visitBlock(*op.getBeforeBody());
      for (auto [argument, passed] : llvm::zip(op.getAfterArguments(), condition.getArgs()))
        copy(argument, passed);
      visitBlock(*op.getAfterBody());
      for (auto [argument, yielded] : llvm::zip(carried, op.getYieldOp().getResults()))
        changed |= weaken(argument, yielded, round);
    }
    for (auto [result, passed] : llvm::zip(op.getResults(), condition.getArgs()))
      copy(result, passed);
  }

  void visitIf(mlir::scf::IfOp op) {
    visitBlock(*op.thenBlock());
    if (op.elseBlock())
      visitBlock(*op.elseBlock());
    for (auto [index, result] : llvm::enumerate(op.getResults()))
      set(result, self().join(result, get(op.thenYield().getOperand(index)), get(op.elseYield().getOperand(index))));
  }

  mutable llvm::DenseMap<mlir::Value, std::unique_ptr<Fact>> facts;
};

} // namespace kiln
