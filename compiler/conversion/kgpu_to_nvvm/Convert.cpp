// kgpu.convert inside a warp: nothing, moved registers, or shuffles. What has to go through shared memory was made so
// by kiln-lower-exchanges.
#include "compiler/conversion/kgpu_to_nvvm/Shuffle.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::ConversionKind;

/// The lane each lane reads from, before a step's XOR.
static Value sourceLane(Lowering &lowering, const layout::Conversion &plan) {
  CodeBuilder &b = lowering.b;
  Value source;
  for (auto [bit, lanes] : plan.laneMap) {
    Value set = parityOf(lowering, {bit});
    Value part = arith::SelectOp::create(b, set, b.i32(lanes), b.i32(0));
    source = source ? arith::XOrIOp::create(b, source, part).getResult() : part;
  }
  return source ? source : b.i32(0);
}

static LogicalResult emitConvert(Lowering &lowering, kgpu::ConvertOp op) {
  ArrayRef<Value> from = lowering.get(op.getSource());
  layout::Conversion plan = planConversion(kgpu::layoutOf(op.getSource().getType()), kgpu::layoutOf(op.getType()),
                                           memoryBytes(elementOf(op.getSource())));
  Registers result;
  switch (plan.kind) {
  case ConversionKind::None:
    lowering.set(op, Registers(from));
    return success();
  case ConversionKind::Registers:
    for (int64_t source : plan.registers)
      result.push_back(from[source]);
    lowering.set(op, result);
    return success();
  case ConversionKind::Shared:
    return op.emitOpError(
        "expected a conversion inside a warp (because kiln-lower-exchanges makes the others stores and "
        "loads), got one between warps");
  case ConversionKind::Shuffle:
    break;
  }
  Registers source(from), given(plan.steps.size());
  // Steps of one distance go together: narrow values share words.
  bool sameLane = plan.laneMapIsIdentity();
  llvm::MapVector<int64_t, SmallVector<unsigned>> byDistance;
  Registers sent;
  for (auto [index, step] : llvm::enumerate(plan.steps)) {
    sent.push_back(selectBy(lowering, step.from, source));
    if (step.shuffles)
      byDistance[step.laneXor].push_back(index);
    else
      given[index] = sent.back();
  }
  Value origin = sameLane ? Value() : sourceLane(lowering, plan);
  for (auto &[distance, steps] : byDistance) {
    Registers values;
    for (unsigned step : steps)
      values.push_back(sent[step]);
    Registers taken;
    if (sameLane) {
      taken = shuffleXor(lowering, values, distance);
    } else {
      Value lane = origin;
      if (distance)
        lane = arith::XOrIOp::create(lowering.b, origin, lowering.b.i32(distance));
      taken = shuffleFrom(lowering, values, lane);
    }
    for (auto [step, value] : llvm::zip(steps, taken))
      given[step] = value;
  }
  for (const layout::Select &select : plan.results)
    result.push_back(selectBy(lowering, select, given));
  lowering.set(op, result);
  return success();
}

void nvvm::addConvert(EmitTable &table) { table.add<kgpu::ConvertOp, emitConvert>(); }
