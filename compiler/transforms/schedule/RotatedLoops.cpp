// Rotated loops of the schedule `streams`. A rotated loop begins the first product of the next step under the last ones
// of this step:
//
//   begin S of step 0; wait
//   for all steps: begin dP; P; begin dv; dS; begin dk; begin S of the next step; wait
//
// Each group computes a part of dS, and all read all of it for dq. If they waited for each other there, they would do
// scalar work at the same time, and nobody would feed the tensor cores. So dq of a step is made in the next one, behind
// that step's dS, which has a second slot.
#include "compiler/transforms/schedule/StreamsWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

void StreamsWriter::beginStep() {
  step->hasBegun = true;
  llvm::DenseMap<Operation *, Value> ofThisStep = parts;
  b.setLoc(step->rotated.group.front()->getLoc());
  if (step->comes) {
    Type type = step->cursor.getType();
    auto branch = scf::IfOp::create(b, TypeRange{type}, step->comes, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, step->cursor);
    b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b, AdvanceOp::create(b, type, step->cursor).getResult());
    step->cursor = branch.getResult(0);
  }
  receive(step->rotated.group, step->cursor, /*again=*/bool(step->comes), step->comes);
  b.setLoc(step->rotated.lead.getLoc());
  begin(step->rotated.lead, step->map);
  parts = std::move(ofThisStep);
}

void StreamsWriter::cloneRest(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors, Step &next) {
  b.setLoc(rotated.group.front()->getLoc());
  receive(rotated.group, cursors[ringOf[rotated.group.front()]], /*again=*/true);
  llvm::erase(slots.back().readers, rotated.lead);
  size_t storedOutside = inside.stored.size();
  Step *outer = std::exchange(step, &next);
  Deferred ofStepBefore{rotated.deferred, map};
  Deferred *around = std::exchange(stepBefore, rotated.deferred ? &ofStepBefore : nullptr);
  tile::DotOp last = llvm::to_vector(rotated.loop.getBody()->getOps<tile::DotOp>()).back();
  for (Operation &op : rotated.loop.getBody()->without_terminator()) {
    if (groups.contains(&op) || &op == rotated.lead)
      continue;
    cloneOp(op, Role::Multiply, rotated.uses.contains(&op) ? ofStepBefore.map : map, cursors);
    if (&op == last) {
      // A part that leaves has its registers until it is stored.
      next.isDue = true;
      if (!inside.reduces)
        beginStep();
    }
  }
  if (!next.hasBegun)
    beginStep();
  loadVectors(rotated.loop.getYieldedValues(), map);
  stepBefore = around;
  settle(0);
  step = outer;
  inside.stored.truncate(storedOutside);
}

void StreamsWriter::makeDeferred(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors) {
  b.setLoc(rotated.deferred.getLoc());
  Value &cursor = cursors[*sharedRing];
  beginShared(rotated.deferred, map, cursor);
  cursor = AdvanceOp::create(b, cursor.getType(), cursor);
  for (Operation *use : rotated.uses)
    cloneOp(*use, Role::Multiply, map, cursors);
  settle(0);
}

void StreamsWriter::cloneRotated(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors) {
  scf::ForOp loop = rotated.loop;
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  unsigned own = ringOf[rotated.group.front()], count = loop.getNumResults();
  SmallVector<Value> inits = llvm::map_to_vector(loop.getInitArgs(), of);
  llvm::append_range(inits, cursors);
  b.setLoc(loop.getLoc());
  Value first = of(loop.getLowerBound()), end = of(loop.getUpperBound()), width = of(loop.getStep());
  Value runs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, first, end);
  SmallVector<Type> types(ValueRange(inits).getTypes());
  auto branch = scf::IfOp::create(b, types, runs, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, inits);

    b.setInsertionPointToStart(branch.thenBlock());
    Inside outer = enter(*loop.getBody());
    if (rotated.deferred) {
      // The first step makes the product of a step before it, too: of zeros, and for a block that is not added.
      b.setLoc(rotated.deferred.getLoc());
      share(arith::ConstantOp::create(b, b.getZeroAttr(streams.sharedType())), cursors[*sharedRing]);
    }
    Step opening{rotated, map, cursors[own], /*comes=*/Value()};
    Step *around = std::exchange(step, &opening);
    beginStep();
    settle(0);
    step = around;
    slots.pop_back(); // the first iteration goes on with it
    b.setLoc(loop.getLoc());
    // Followed by the first product of the step that is under way; its slot is where the cursor is.
    inits.push_back(opening.map.lookup(rotated.lead.getResult()));
    auto copy = scf::ForOp::create(b, first, end, width, inits);
    {
      OpBuilder::InsertionGuard inBody(b);
      b.setInsertionPointToStart(copy.getBody());
      ValueRange values = copy.getRegionIterArgs();
      IRMapping inner = map;
      inner.map(loop.getInductionVar(), copy.getInductionVar());
      inner.map(loop.getRegionIterArgs(), values.take_front(count));
      inner.map(rotated.lead.getResult(), values.back());
      SmallVector<Value> at(values.slice(count, cursors.size()));
      // Behind the last step comes its own first product again, which nobody needs: a copy of the step without it would
      // be as long as the loop.
      Value left = arith::SubIOp::create(b, end, copy.getInductionVar());
      Value comes = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, left, width);
      Step next{rotated, map, at[own], comes};
      cloneRest(rotated, inner, at, next);
      slots.pop_back();
      at[own] = next.cursor;
      auto yielded =
          llvm::map_to_vector(loop.getYieldedValues(), [&](Value value) { return inner.lookupOrDefault(value); });
      llvm::append_range(yielded, at);
      yielded.push_back(next.map.lookup(rotated.lead.getResult()));
      b.setLoc(loop.getLoc());
      scf::YieldOp::create(b, yielded);
    }
    SmallVector<Value> at(copy.getResults().slice(count, cursors.size()));
    if (rotated.deferred) {
      IRMapping last = map;
      makeDeferred(rotated, last, at);
    }
    b.setLoc(loop.getLoc());
    at[own] = AdvanceOp::create(b, at[own].getType(), at[own]);
    SmallVector<Value> results(copy.getResults().take_front(count));
    llvm::append_range(results, at);
    scf::YieldOp::create(b, results);
    inside = std::move(outer);
  }
  map.map(loop.getResults(), branch.getResults().take_front(count));
  llvm::copy(branch.getResults().drop_front(count), cursors.begin());
}

void StreamsWriter::skipFirst(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors) {
  scf::ForOp loop = rotated.loop;
  unsigned ring = reductions[rotated.uses.back()].ring;
  Value &cursor = cursors[ring];
  b.setLoc(rotated.uses.back()->getLoc());
  Value runs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, map.lookupOrDefault(loop.getLowerBound()),
                                     map.lookupOrDefault(loop.getUpperBound()));
  auto branch = scf::IfOp::create(b, TypeRange{cursor.getType()}, runs, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, cursor);
  b.setInsertionPointToStart(branch.thenBlock());
  ReceiveOp::create(b, TypeRange(rings[ring].memories), rings[ring].channel, cursor);
  ReleaseOp::create(b, rings[ring].channel, cursor, /*when=*/Value());
  scf::YieldOp::create(b, AdvanceOp::create(b, cursor.getType(), cursor).getResult());
  cursor = branch.getResult(0);
}
