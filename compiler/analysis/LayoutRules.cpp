// The layout rules, op by op.
#include "compiler/analysis/LayoutRules.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Builder.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using kiln::layout::Layout;

RankedTensorType rules::Group::type() const {
  return cast<RankedTensorType>(defs.empty() ? uses.front()->get().getType() : defs.front().getType());
}

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

using Groups = SmallVector<rules::Group, 2>;

static rules::Group makeGroup(ArrayRef<OpOperand *> uses, ValueRange defs) {
  rules::Group group;
  for (OpOperand *use : uses)
    if (isTile(use->get()))
      group.uses.push_back(use);
  for (Value def : defs)
    if (isTile(def))
      group.defs.push_back(def);
  return group;
}

static void addTo(Groups &groups, rules::Group group) {
  if (!group.empty())
    groups.push_back(std::move(group));
}

static SmallVector<OpOperand *> allOperands(Operation *op) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : op->getOpOperands())
    uses.push_back(&use);
  return uses;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

static Groups groupsOfFor(scf::ForOp op) {
  Groups groups;
  for (unsigned i = 0; i < op.getNumRegionIterArgs(); ++i)
    addTo(groups, makeGroup({&op.getInitArgsMutable()[i], &(*op.getYieldedValuesMutable())[i]},
                            {op.getRegionIterArg(i), op.getResult(i)}));
  return groups;
}

static Groups groupsOfIf(scf::IfOp op) {
  Groups groups;
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    addTo(groups, makeGroup({&op.thenYield()->getOpOperand(i), &op.elseYield()->getOpOperand(i)}, {result}));
  return groups;
}

static Groups groupsOfWhile(scf::WhileOp op) {
  Groups groups;
  for (auto [i, argument] : llvm::enumerate(op.getBeforeArguments()))
    addTo(groups, makeGroup({&op->getOpOperand(i), &op.getYieldOp()->getOpOperand(i)}, {argument}));
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    addTo(groups, makeGroup({&op.getConditionOp().getArgsMutable()[i]}, {op.getAfterArguments()[i], result}));
  return groups;
}

/// Halves of equal size, a power of two along the axis, can be distinguished by a register digit of their own.
static bool catByRegister(tile::CatOp op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  return lhs.getShape() == cast<RankedTensorType>(op.getRhs().getType()).getShape() &&
         llvm::isPowerOf2_64(lhs.getDimSize(op.getAxis()));
}

std::optional<Groups> rules::groupsOf(Operation *op) {
  Groups groups;
  auto add = [&](ArrayRef<OpOperand *> uses, ValueRange defs) { addTo(groups, makeGroup(uses, defs)); };
  auto addEachOperand = [&] {
    for (OpOperand *use : allOperands(op))
      add({use}, {});
  };
  if (isDerived(op)) {
    add(allOperands(op), {});
    add({}, op->getResults());
    return groups;
  }
  bool known = true;
  TypeSwitch<Operation *>(op)
      .Case([&](func::FuncOp func) {
        if (!func.isDeclaration())
          for (Value argument : func.getArguments())
            add({}, argument);
      })
      .Case([&](scf::ForOp loop) { groups = groupsOfFor(loop); })
      .Case([&](scf::IfOp branch) { groups = groupsOfIf(branch); })
      .Case([&](scf::WhileOp loop) { groups = groupsOfWhile(loop); })
      .Case<scf::YieldOp, scf::ConditionOp, tile::YieldOp, kgpu::YieldOp>([](Operation *) {})
      .Case<func::ReturnOp, tile::PrintOp>([&](Operation *) { addEachOperand(); })
      .Case([&](tile::DotOp dot) {
        add({&dot.getAccMutable()}, dot.getResult());
        add({&dot.getLhsMutable()}, {});
        add({&dot.getRhsMutable()}, {});
      })
      .Case<kgpu::WarpgroupMmaOp, kgpu::WarpMmaOp>([&](auto product) {
        add({&product.getAccMutable()}, product.getResult());
        add({&product.getLhsMutable()}, {});
        add({&product.getRhsMutable()}, {});
      })
      .Case([&](tile::GatherOp gather) {
        add({&gather.getIndicesMutable()}, gather.getResult());
        add({&gather.getSourceMutable()}, {});
      })
      .Case<tile::HistogramOp, tile::TopkOp, tile::CatOp, kgpu::ConvertOp, kgpu::PartialReduceOp>([&](Operation *) {
        if (isa<tile::CatOp, kgpu::ConvertOp>(op))
          addEachOperand();
        else
          add(allOperands(op), {});
        add({}, op->getResults());
      })
      // Their layouts differ; the ops' verifiers say how.
      .Case<kgpu::PartialScanOp, kgpu::AddPrefixOp>([&](Operation *) {
        addEachOperand();
        for (Value result : op->getResults())
          add({}, result);
      })
      .Default([&](Operation *) {
        StringRef dialect = op->getName().getDialectNamespace();
        known = dialect == "tile" || dialect == "kgpu" || isa<arith::ConstantOp, ub::PoisonOp>(op) ||
                OpTrait::hasElementwiseMappableTraits(op);
        if (known)
          add(allOperands(op), op->getResults());
      });
  if (!known && (llvm::any_of(op->getOperands(), isTile) || llvm::any_of(op->getResults(), isTile)))
    return std::nullopt;
  return groups;
}

//===----------------------------------------------------------------------===//
// Ops that change the shape
//===----------------------------------------------------------------------===//

bool rules::isDerived(Operation *op) {
  if (auto cat = dyn_cast<tile::CatOp>(op))
    return catByRegister(cat);
  return isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp, tile::JoinOp, tile::SplitOp,
             tile::ReduceOp>(op);
}

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

/// The step from the first half to the second: one bit along the axis.
static layout::Digit halfDigit(tile::CatOp op) {
  layout::Digit digit;
  digit.basis.assign(shapeOf(op.getLhs()).size(), 0);
  digit.basis[op.getAxis()] = shapeOf(op.getLhs())[op.getAxis()];
  return digit;
}

static std::optional<Layout> catResult(tile::CatOp op, const Layout &half) {
  layout::LayoutBuilder result(half, shapeOf(op.getResult()));
  result[layout::Coord::Reg].push_back(halfDigit(op));
  return result.finish();
}

static std::optional<Layout> catOperand(tile::CatOp op, const Layout &whole) {
  layout::LayoutBuilder result(whole, shapeOf(op.getLhs()));
  layout::Digit half = halfDigit(op);
  int64_t bit = half.basis[op.getAxis()];
  for (unsigned coord = 0; coord < layout::kNumCoords; ++coord)
    for (const layout::Digit &digit : whole.digits(layout::Coord(coord)))
      if (digit.radix == 2 && (digit.basis[op.getAxis()] & bit) &&
          (coord != unsigned(layout::Coord::Reg) || !(digit == half)))
        return std::nullopt;
  llvm::erase(result[layout::Coord::Reg], half);
  return result.finish();
}

std::optional<Layout> rules::resultFromOperand(Operation *op, const Layout &operand) {
  return TypeSwitch<Operation *, std::optional<Layout>>(op)
      .Case([&](tile::ExpandDimsOp expand) { return operand.expand(expand.getAxis()); })
      .Case([&](tile::BroadcastOp broadcast) {
        Layout result = operand;
        for (auto [dim, side] : llvm::enumerate(shapeOf(broadcast.getResult())))
          if (operand.shape()[dim] != side)
            result = result.grow(dim, side);
        return result;
      })
      .Case([&](tile::TransOp trans) { return operand.transpose(trans.getOrder()); })
      .Case([&](tile::ReshapeOp reshape) { return operand.reshape(shapeOf(reshape.getResult())); })
      .Case([&](tile::JoinOp) { return operand.join(); })
      .Case([&](tile::SplitOp) { return operand.split(); })
      .Case([&](tile::CatOp cat) { return catResult(cat, operand); })
      .Case([&](tile::ReduceOp reduce) { return operand.slice(reduce.getAxis()); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Layout> rules::operandFromResult(Operation *op, const Layout &result) {
  return TypeSwitch<Operation *, std::optional<Layout>>(op)
      .Case([&](tile::ExpandDimsOp expand) { return result.slice(expand.getAxis()); })
      .Case([&](tile::BroadcastOp broadcast) {
        Layout operand = result;
        for (auto [dim, side] : llvm::enumerate(shapeOf(broadcast.getValue())))
          if (result.shape()[dim] != side)
            operand = operand.collapse(dim);
        return operand.withoutReplicatedRegisters();
      })
      .Case([&](tile::TransOp trans) {
        SmallVector<int32_t> inverse(trans.getOrder().size());
        for (auto [dim, source] : llvm::enumerate(trans.getOrder()))
          inverse[source] = dim;
        return result.transpose(inverse);
      })
      .Case([&](tile::ReshapeOp reshape) { return result.reshape(shapeOf(reshape.getValue())); })
      .Case([&](tile::JoinOp) { return result.split(); })
      .Case([&](tile::SplitOp) { return result.join(); })
      .Case([&](tile::CatOp cat) { return catOperand(cat, result); })
      .Default([](Operation *) { return std::nullopt; });
}

bool rules::fits(Operation *op, const Layout &operand, const Layout &result) {
  auto same = [](const std::optional<Layout> &a, const Layout &b) {
    return a && a->withoutReplicatedRegisters() == b.withoutReplicatedRegisters();
  };
  return same(operandFromResult(op, result), operand) || same(resultFromOperand(op, operand), result);
}
