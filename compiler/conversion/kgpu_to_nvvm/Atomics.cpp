// tile.atomic_rmw and tile.atomic_cas: each element once, by the thread that owns it. Where the machine has an
// instruction, it is one predicated instruction (a reduction if the old value is unused); the rest is a
// compare-and-swap loop. Order comes from one fence before and one after, with barriers, because the accesses of an
// instance are those of all its threads. An instruction for a single element acquires by itself, without the second
// fence, which would wait for writes once more.
#include "compiler/conversion/kgpu_to_nvvm/Access.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Layout;

static StringRef scopeName(tile::MemScope scope) {
  switch (scope) {
  case tile::MemScope::CTA:
    return "cta";
  case tile::MemScope::GPU:
    return "gpu";
  case tile::MemScope::System:
    return "sys";
  }
  return "sys";
}

/// The operation and type in PTX; std::nullopt where PTX has none.
static std::optional<std::string> nativeName(tile::RMWKind kind, Type element, const Target &target) {
  std::string bits = std::to_string(8 * memoryBytes(element));
  switch (kind) {
  case tile::RMWKind::Add:
    return "add.u" + bits;
  case tile::RMWKind::FAdd:
    if (element.isF16())
      return "add.noftz.f16";
    if (element.isBF16())
      return target.has(Feature::PackedBf16Atomics) ? std::optional<std::string>("add.noftz.bf16") : std::nullopt;
    return "add.f" + bits;
  case tile::RMWKind::Max:
    return "max.s" + bits;
  case tile::RMWKind::UMax:
    return "max.u" + bits;
  case tile::RMWKind::Min:
    return "min.s" + bits;
  case tile::RMWKind::UMin:
    return "min.u" + bits;
  case tile::RMWKind::And:
    return "and.b" + bits;
  case tile::RMWKind::Or:
    return "or.b" + bits;
  case tile::RMWKind::Xor:
    return "xor.b" + bits;
  case tile::RMWKind::Xchg:
    return "exch.b" + bits;
  case tile::RMWKind::FMax: // floats compare like integers only within one sign, and never if there are NaNs
  case tile::RMWKind::FMin:
    return std::nullopt;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

// The barriers around the fences come from Lowering::emitOp.
static void fence(Lowering &lowering, tile::MemScope scope, Value predicate) {
  std::string text = ("fence.acq_rel." + scopeName(scope) + ";").str();
  if (predicate)
    lowering.b.ptx("@$0 " + text, "b", {}, {predicate});
  else
    lowering.b.ptx(text, "", {}, {});
}

static void orderBefore(Lowering &lowering, Operation *op, tile::MemScope scope, Value predicate) {
  if (kgpu::barriersOf(op).before)
    fence(lowering, scope, predicate);
}

static void orderAfter(Lowering &lowering, Operation *op, tile::MemScope scope, Value predicate) {
  if (kgpu::barriersOf(op).after)
    fence(lowering, scope, predicate);
}

//===----------------------------------------------------------------------===//
// One element
//===----------------------------------------------------------------------===//

/// The constraint letter of a register of this many bits.
static const char *constraintFor(unsigned bits) { return bits == 64 ? "l" : bits == 32 ? "r" : "h"; }

/// One instruction, a store where the name is only a type; returns the old bits (zero where the predicate is false) if
/// they are wanted.
static Value emitNative(Lowering &lowering, StringRef name, StringRef scope, Value address, ArrayRef<Value> operands,
                        Value predicate, bool wanted, bool acquires = false) {
  Type type = operands.front().getType();
  const char *letter = constraintFor(type.getIntOrFloatBitWidth());
  std::string text, constraints;
  unsigned next = 0;
  SmallVector<Value> inputs{address};
  // There is no red.exch, so an exchange returns the old value even if it is unused.
  wanted |= name.starts_with("exch");
  std::string kind = acquires                ? "atom.acquire."
                     : wanted                ? "atom.relaxed."
                     : name.starts_with("b") ? "st.relaxed."
                                             : "red.relaxed.";
  text = kind + scope.str() + ".global." + name.str() + " ";
  if (wanted) {
    text += "$0, ";
    constraints = std::string("=") + letter + ",";
    next = 1;
  }
  text += "[$" + std::to_string(next++) + "]";
  constraints += "l";
  for (Value operand : operands) {
    text += ", $" + std::to_string(next++);
    constraints += std::string(",") + letter;
    inputs.push_back(operand);
  }
  text += ";";
  if (predicate) {
    text = "@$" + std::to_string(next) + " " + text;
    constraints += ",b";
    inputs.push_back(predicate);
    if (wanted) {
      constraints += ",0";
      inputs.push_back(lowering.b.zero(type));
    }
  }
  if (wanted)
    return lowering.b.ptx(text, constraints, type, inputs).front();
  lowering.b.ptx(text, constraints, {}, inputs);
  return {};
}

/// Repeats the swap until no other thread came in between; returns the old bits (zero where the predicate is false).
static Value emitLoop(Lowering &lowering, StringRef scope, Value address, Type element, Value predicate,
                      llvm::function_ref<Value(Value)> update) {
  CodeBuilder &b = lowering.b;
  Type bits = b.getIntegerType(unsigned(8 * memoryBytes(element)));
  std::string width = std::to_string(bits.getIntOrFloatBitWidth());
  auto loopHere = [&]() -> Value {
    std::string letter = constraintFor(bits.getIntOrFloatBitWidth());
    Value seen =
        lowering.b
            .ptx("ld.relaxed." + scope.str() + ".global.b" + width + " $0, [$1];", "=" + letter + ",l", bits, {address})
            .front();
    auto retry = scf::WhileOp::create(b, TypeRange{bits}, ValueRange{seen});
    OpBuilder::InsertionGuard guard(b);
    Block &before = retry.getBefore().emplaceBlock();
    Value old = before.addArgument(bits, b.getLoc());
    b.setInsertionPointToEnd(&before);
    Value next = b.toBits(update(b.fromBits(old, registerType(element))));
    Value found = emitNative(lowering, "cas.b" + width, scope, address, {old, next}, Value(), true);
    Value again = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, found, old);
    scf::ConditionOp::create(b, again, ValueRange{found});
    Block &after = retry.getAfter().emplaceBlock();
    after.addArgument(bits, b.getLoc());
    b.setInsertionPointToEnd(&after);
    scf::YieldOp::create(b, after.getArguments());
    return retry.getResult(0);
  };
  if (!predicate)
    return loopHere();
  auto branch = scf::IfOp::create(b, TypeRange{bits}, predicate, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, loopHere());
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, b.zero(bits));
  return branch.getResult(0);
}

//===----------------------------------------------------------------------===//
// All elements
//===----------------------------------------------------------------------===//

/// Calls `one(register, predicate)` for every element that this thread owns and binds what it returns. Threads that
/// replicate an element have zero there; kiln-lower-exchanges has arranged how they get the owner's result.
static void forOwned(Lowering &lowering, Operation *op, Value pointers, Value mask, Value owner,
                     llvm::function_ref<Value(unsigned, Value)> one) {
  CodeBuilder &b = lowering.b;
  const Layout *layout = layoutOf(pointers.getType());
  unsigned count = registerCount(pointers.getType());
  ArrayRef<Value> masks = mask ? lowering.get(mask) : ArrayRef<Value>();
  Type element = registerType(elementOf(op->getResult(0)));
  bool wanted = !op->getResult(0).use_empty();
  Registers results(count);
  for (unsigned reg = 0; reg < count; ++reg) {
    if (layout && !isOwnerRegister(*layout, reg))
      continue;
    Value predicate = mask ? masks[reg] : owner;
    if (mask && owner)
      predicate = arith::AndIOp::create(b, owner, predicate);
    Value old = one(reg, predicate);
    if (wanted)
      results[reg] = b.fromBits(old, element);
  }
  for (unsigned reg = 0; reg < count; ++reg)
    if (!wanted) // unused, but the value has to exist
      results[reg] = reg ? results[0] : b.zero(element);
    else if (layout)
      results[reg] = results[ownerRegister(*layout, reg)];
  lowering.set(op->getResult(0), std::move(results));
}

/// How many elements one reduction may add if the old values are unused.
static VectorAccess packedAdds(Lowering &lowering, tile::AtomicRMWOp op, Value mask) {
  VectorAccess access;
  access.element = elementOf(op.getResult());
  const Target &target = lowering.target;
  bool isPairable = (access.element.isF16() && target.has(Feature::PackedF16Atomics)) ||
                    (access.element.isBF16() && target.has(Feature::PackedBf16Atomics));
  bool isVector = target.has(Feature::VectorAtomics) && (access.element.isF32() || isPairable);
  if (op.getKind() != tile::RMWKind::FAdd || !op.getResult().use_empty() || !isTile(op.getPtr()) ||
      (!isVector && !isPairable))
    return access;
  Grouping grouping = groupPointers(lowering.alignment, op.getPtr(), mask, lowering.target.vectorBytes);
  access.count = std::min<int64_t>(grouping.count, isVector ? 16 / memoryBytes(access.element) : 2);
  return access;
}

/// One reduction of `access.count` elements (two or more).
static void emitPacked(Lowering &lowering, const VectorAccess &access, StringRef scope, Value address,
                       ArrayRef<Value> values, Value predicate) {
  Registers words = packWords(lowering, access, values);
  std::string text = "red.relaxed." + scope.str() + ".global.add", list, constraints = "l";
  if (!access.element.isF32())
    text += ".noftz";
  if (words.size() > 1)
    text += ".v" + std::to_string(words.size());
  text += access.element.isF32() ? ".f32" : access.element.isF16() ? ".f16x2" : ".bf16x2";
  for (unsigned i = 0; i < words.size(); ++i) {
    list += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += ",r";
  }
  text += " [$0], " + (words.size() > 1 ? "{" + list + "}" : list) + ";";
  SmallVector<Value> operands{address};
  llvm::append_range(operands, words);
  if (predicate) {
    text = "@$" + std::to_string(words.size() + 1) + " " + text;
    constraints += ",b";
    operands.push_back(predicate);
  }
  lowering.b.ptx(text, constraints, {}, operands);
}

/// A scalar that is read and left as it is, to acquire what a program before has released: as a rule in a loop that
/// polls it. Polls by loads do not queue up for the place, and wait for no fence.
static bool isPoll(tile::AtomicRMWOp op) {
  using tile::RMWKind;
  return !isTile(op.getPtr()) && !op.getMask() && op.getSem() == tile::MemSemantic::Acquire &&
         llvm::is_contained({RMWKind::Add, RMWKind::Or, RMWKind::Xor}, op.getKind()) &&
         matchPattern(op.getValue(), m_Zero());
}

/// What is acquired becomes visible to the other threads by the barrier that follows.
static void emitPoll(Lowering &lowering, tile::AtomicRMWOp op) {
  Type element = elementOf(op.getResult()), bits = lowering.b.toBits(lowering.get(op.getValue()).front()).getType();
  unsigned width = bits.getIntOrFloatBitWidth();
  std::string letter = constraintFor(width), text = "ld.acquire." + scopeName(op.getScope()).str() + ".global.b";
  Value address = lowering.get(op.getPtr()).front();
  Value found = lowering.b
                    .ptx("@$2 " + text + std::to_string(width) + " $0, [$1];", "=" + letter + ",l,b,0", bits,
                         {address, lowering.place.isFirstThread(), lowering.b.zero(bits)})
                    .front();
  lowering.set(op.getResult(), {lowering.b.fromBits(found, registerType(element))});
}

static LogicalResult emitRMW(Lowering &lowering, tile::AtomicRMWOp op) {
  CodeBuilder &b = lowering.b;
  if (isPoll(op)) {
    emitPoll(lowering, op);
    return success();
  }
  Value mask = op.getMask();
  if (lowering.alignment.alwaysTrue(mask))
    mask = Value();
  Type element = elementOf(op.getResult());
  const Layout *layout = layoutOf(op.getPtr().getType());
  Value owner =
      layout ? lowering.log.unlessFailed(lowering.coordinates.isOwner(*layout)) : lowering.place.isFirstThread();
  ArrayRef<Value> addresses = lowering.get(op.getPtr()), values = lowering.get(op.getValue());
  std::optional<std::string> native = nativeName(op.getKind(), element, lowering.target);
  // A turn that the program has acquired is passed on by a store: nothing else writes the number meanwhile.
  if (op->hasAttr(kgpu::kPassesTurnAttrName) && op.getKind() == tile::RMWKind::Xchg)
    native = "b" + std::to_string(8 * memoryBytes(element));
  StringRef scope = scopeName(op.getScope());
  bool wanted = !op.getResult().use_empty();
  VectorAccess packed = packedAdds(lowering, op, mask);
  bool acquires = !layout && native && wanted && kgpu::barriersOf(op).after;
  orderBefore(lowering, op, op.getScope(), owner);
  forOwned(lowering, op, op.getPtr(), mask, owner, [&](unsigned reg, Value predicate) -> Value {
    if (packed.count > 1) {
      if (reg % packed.count == 0)
        emitPacked(lowering, packed, scope, addresses[reg], values.slice(reg, packed.count), predicate);
      return {};
    }
    if (native)
      return emitNative(lowering, *native, scope, addresses[reg], {b.toBits(values[reg])}, predicate, wanted, acquires);
    return emitLoop(lowering, scope, addresses[reg], element, predicate, [&](Value old) -> Value {
      switch (op.getKind()) {
      case tile::RMWKind::FMax:
        return arith::MaxNumFOp::create(b, old, values[reg]);
      case tile::RMWKind::FMin:
        return arith::MinNumFOp::create(b, old, values[reg]);
      default:
        return arith::AddFOp::create(b, old, values[reg]);
      }
    });
  });
  if (!acquires)
    orderAfter(lowering, op, op.getScope(), owner);
  return success();
}

static LogicalResult emitCAS(Lowering &lowering, tile::AtomicCASOp op) {
  Type element = elementOf(op.getResult());
  const Layout *layout = layoutOf(op.getPtr().getType());
  Value owner =
      layout ? lowering.log.unlessFailed(lowering.coordinates.isOwner(*layout)) : lowering.place.isFirstThread();
  ArrayRef<Value> addresses = lowering.get(op.getPtr()), compares = lowering.get(op.getCompare());
  ArrayRef<Value> values = lowering.get(op.getValue());
  std::string name = "cas.b" + std::to_string(8 * memoryBytes(element));
  StringRef scope = scopeName(op.getScope());
  bool acquires = !layout && kgpu::barriersOf(op).after;
  orderBefore(lowering, op, op.getScope(), owner);
  // PTX has no compare-and-swap without a result, so the old value is always read.
  forOwned(lowering, op, op.getPtr(), Value(), owner, [&](unsigned reg, Value predicate) {
    return emitNative(lowering, name, scope, addresses[reg],
                      {lowering.b.toBits(compares[reg]), lowering.b.toBits(values[reg])}, predicate, true, acquires);
  });
  if (!acquires)
    orderAfter(lowering, op, op.getScope(), owner);
  return success();
}

void nvvm::addAtomics(EmitTable &table) {
  table.add<tile::AtomicRMWOp, emitRMW>();
  table.add<tile::AtomicCASOp, emitCAS>();
}
