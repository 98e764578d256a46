// The embedded language of Emitter.h: each function is one or two operations of arith or math.
#include "compiler/transforms/math/Emitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

Format expand::formatOf(Type element) {
  if (element.isF64())
    return {64, 52, 1023};
  if (element.isF32())
    return {32, 23, 127};
  if (element.isF16())
    return {16, 10, 15};
  if (element.isBF16())
    return {16, 7, 127};
  if (isa<Float8E5M2Type>(element))
    return {8, 2, 15};
  assert(isa<Float8E4M3FNType>(element) && "not a format the expansion knows");
  return {8, 3, 7, false};
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static Type typeWithElement(Type type, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.clone(element);
  return element;
}

static Num constantLike(const Num &x, TypedAttr scalar) {
  TypedAttr attr = scalar;
  if (auto shaped = dyn_cast<ShapedType>(x.type()))
    attr = DenseElementsAttr::get(shaped, Attribute(scalar));
  return x.make<arith::ConstantOp>(attr);
}

Type Num::typeWith(Type other) const { return typeWithElement(type(), other); }

Num Num::like(const llvm::APFloat &c) const { return constantLike(*this, FloatAttr::get(element(), c)); }

Num Num::like(double c) const { return constantLike(*this, FloatAttr::get(element(), c)); }

Num Num::like(int64_t c) const {
  return constantLike(*this, IntegerAttr::get(element(), APInt(bitWidth(), c, /*isSigned=*/true,
                                                               /*implicitTrunc=*/true)));
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

template <typename FloatOp, typename IntOp> static Num binary(Num a, Num b) {
  return a.isFloat() ? a.make<FloatOp>(a.value(), b.value()) : a.make<IntOp>(a.value(), b.value());
}

Num expand::operator+(Num a, Num b) { return binary<arith::AddFOp, arith::AddIOp>(a, b); }
Num expand::operator-(Num a, Num b) { return binary<arith::SubFOp, arith::SubIOp>(a, b); }
Num expand::operator*(Num a, Num b) { return binary<arith::MulFOp, arith::MulIOp>(a, b); }
Num expand::operator/(Num a, Num b) { return a.make<arith::DivFOp>(a.value(), b.value()); }
Num expand::operator-(Num a) { return a.isFloat() ? a.make<arith::NegFOp>(a.value()) : a.like(int64_t(0)) - a; }
Num expand::operator&(Num a, Num b) { return a.make<arith::AndIOp>(a.value(), b.value()); }
Num expand::operator|(Num a, Num b) { return a.make<arith::OrIOp>(a.value(), b.value()); }
Num expand::operator^(Num a, Num b) { return a.make<arith::XOrIOp>(a.value(), b.value()); }
Num expand::operator~(Num a) { return a ^ a.like(int64_t(-1)); }
Num expand::operator<<(Num a, Num b) { return a.make<arith::ShLIOp>(a.value(), b.value()); }
Num expand::operator>>(Num a, Num b) { return a.make<arith::ShRSIOp>(a.value(), b.value()); }
Num expand::lshr(Num a, Num b) { return a.make<arith::ShRUIOp>(a.value(), b.value()); }

static Num compare(Num a, Num b, arith::CmpFPredicate f, arith::CmpIPredicate i) {
  return a.isFloat() ? a.make<arith::CmpFOp>(f, a.value(), b.value()) : a.make<arith::CmpIOp>(i, a.value(), b.value());
}

using F = arith::CmpFPredicate;
using I = arith::CmpIPredicate;
Num expand::operator<(Num a, Num b) { return compare(a, b, F::OLT, I::slt); }
Num expand::operator<=(Num a, Num b) { return compare(a, b, F::OLE, I::sle); }
Num expand::operator>(Num a, Num b) { return compare(a, b, F::OGT, I::sgt); }
Num expand::operator>=(Num a, Num b) { return compare(a, b, F::OGE, I::sge); }
Num expand::operator==(Num a, Num b) { return compare(a, b, F::OEQ, I::eq); }
Num expand::operator!=(Num a, Num b) { return compare(a, b, F::UNE, I::ne); }
Num expand::ult(Num a, Num b) { return a.make<arith::CmpIOp>(I::ult, a.value(), b.value()); }
Num expand::isNan(Num x) { return x.make<arith::CmpFOp>(F::UNO, x.value(), x.value()); }

Num expand::select(Num condition, Num yes, Num no) {
  return yes.make<arith::SelectOp>(condition.value(), yes.value(), no.value());
}

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

Num expand::fma(Num a, Num b, Num c) { return a.make<math::FmaOp>(a.value(), b.value(), c.value()); }

Num expand::mulAdd(Num a, Num b, Num c) { return a.emitter().target.hasFMA() ? fma(a, b, c) : a * b + c; }

Num expand::horner(Num x, ArrayRef<double> coefficients) {
  Num result = x.constant(coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    result = mulAdd(result, x, x.constant(c));
  return result;
}

Num expand::abs(Num x) { return x.make<math::AbsFOp>(x.value()); }
Num expand::copySign(Num magnitude, Num sign) { return sign.make<math::CopySignOp>(magnitude.value(), sign.value()); }
Num expand::sqrt(Num x) { return x.make<math::SqrtOp>(x.value()); }
Num expand::roundEven(Num x) { return x.make<math::RoundEvenOp>(x.value()); }
Num expand::truncate(Num x) { return x.make<math::TruncOp>(x.value()); }

Num expand::infinity(Num like) {
  return like.like(llvm::APFloat::getInf(cast<FloatType>(like.element()).getFloatSemantics()));
}
Num expand::quietNan(Num like) {
  return like.like(llvm::APFloat::getQNaN(cast<FloatType>(like.element()).getFloatSemantics()));
}

// The constant is the first operand of the comparison and of the select: that is x86's max/min instruction, which
// returns its second operand when one is NaN.
Num expand::atMost(Num x, double high) {
  Num h = x.constant(high);
  return select(h < x, h, x);
}
Num expand::clamp(Num x, double low, double high) {
  Num l = x.constant(low);
  return atMost(select(l > x, l, x), high);
}
Num expand::maximum(Num a, Num b) { return select(a > b, a, b); }
Num expand::minimum(Num a, Num b) { return select(a < b, a, b); }

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

template <typename Op> static Num cast(Num x, Type element) { return x.make<Op>(x.typeWith(element), x.value()); }

Num expand::bits(Num x) { return ::cast<arith::BitcastOp>(x, IntegerType::get(x.type().getContext(), x.bitWidth())); }
Num expand::fromBits(Num i, Type element) { return ::cast<arith::BitcastOp>(i, element); }
Num expand::toInteger(Num x, Type element) { return ::cast<arith::FPToSIOp>(x, element); }
Num expand::signedToFloat(Num i, Type element) { return ::cast<arith::SIToFPOp>(i, element); }
Num expand::extendUnsigned(Num i, Type element) { return ::cast<arith::ExtUIOp>(i, element); }
Num expand::extendSigned(Num i, Type element) { return ::cast<arith::ExtSIOp>(i, element); }
Num expand::truncateTo(Num i, Type element) { return ::cast<arith::TruncIOp>(i, element); }

Num expand::convert(Num x, Type element) {
  if (x.element() == element)
    return x;
  return x.bitWidth() < element.getIntOrFloatBitWidth() ? ::cast<arith::ExtFOp>(x, element)
                                                        : ::cast<arith::TruncFOp>(x, element);
}

Num expand::smallToFloat(Num i, Type element) {
  Format f = formatOf(element);
  double magic = 1.5 * double(int64_t(1) << f.mantissa);
  Num base = i.constant(((f.bias + f.mantissa) << f.mantissa) + (int64_t(1) << (f.mantissa - 1)));
  return fromBits(i + base, element) - magic;
}

bool expand::hasSpecialFunctions(Num x) {
  return x.type().isF32() && x.emitter().target.has(Feature::SpecialFunctions);
}

Num expand::intrinsic(StringRef name, ArrayRef<Num> operands, Type result) {
  Emitter &e = operands.front().emitter();
  SmallVector<Value, 3> values = llvm::map_to_vector<3>(operands, [](Num n) { return n.value(); });
  return operands.front().make<LLVM::CallIntrinsicOp>(result ? result : operands.front().type(),
                                                      e.builder.getStringAttr(name), values);
}

//===----------------------------------------------------------------------===//
// Unevaluated sums
//===----------------------------------------------------------------------===//

Pair expand::twoSum(Num a, Num b) {
  Num s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
Pair expand::fastTwoSum(Num a, Num b) {
  Num s = a + b;
  return {s, (a - s) + b};
}
Pair expand::twoProduct(Num a, Num b) {
  Num p = a * b;
  return {p, fma(a, b, -p)};
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

bool expand::hasAnyLane(Num x) { return !isa<TensorType>(x.type()); }

Value expand::anyLane(Num condition) {
  auto type = dyn_cast<VectorType>(condition.type());
  if (!type)
    return condition.value();
  Emitter &e = condition.emitter();
  Value flat = condition.value();
  auto flatType = VectorType::get({type.getNumElements()}, type.getElementType());
  if (flatType != type)
    flat = vector::ShapeCastOp::create(e.builder, e.loc, flatType, flat);
  return vector::ReductionOp::create(e.builder, e.loc, vector::CombiningKind::OR, flat);
}

SmallVector<Num> expand::selectRarely(Num condition, ArrayRef<Num> fast,
                                      const std::function<SmallVector<Num>()> &slow) {
  Emitter &e = condition.emitter();
  auto choose = [&] {
    SmallVector<Num> chosen = slow();
    for (auto [s, f] : llvm::zip_equal(chosen, fast))
      s = select(condition, s, f);
    return chosen;
  };
  if (!hasAnyLane(condition))
    return choose();
  SmallVector<Type> types = llvm::map_to_vector(fast, [](Num n) { return n.type(); });
  auto values = [](ArrayRef<Num> nums) { return llvm::map_to_vector(nums, [](Num n) { return n.value(); }); };
  auto branch = scf::IfOp::create(e.builder, e.loc, types, anyLane(condition), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(e.builder);
  e.builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(e.builder, e.loc, values(choose()));
  e.builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(e.builder, e.loc, values(fast));
  return llvm::map_to_vector(branch.getResults(), [&](Value v) { return Num(e, v); });
}

Num expand::iterate(Num state, int64_t bound, const std::function<Num(Num)> &pending,
                    const std::function<Num(Num)> &step) {
  Emitter &e = state.emitter();
  if (!hasAnyLane(state)) {
    Value zero = arith::ConstantIndexOp::create(e.builder, e.loc, 0);
    Value one = arith::ConstantIndexOp::create(e.builder, e.loc, 1);
    Value end = arith::ConstantIndexOp::create(e.builder, e.loc, bound);
    auto loop = scf::ForOp::create(e.builder, e.loc, zero, end, one, state.value());
    OpBuilder::InsertionGuard guard(e.builder);
    e.builder.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(e.builder, e.loc, step(Num(e, loop.getRegionIterArg(0))).value());
    return Num(e, loop.getResult(0));
  }
  auto before = [&](OpBuilder &, Location loc, ValueRange args) {
    Num current(e, args[0]);
    scf::ConditionOp::create(e.builder, loc, anyLane(pending(current)), args);
  };
  auto after = [&](OpBuilder &, Location loc, ValueRange args) {
    scf::YieldOp::create(e.builder, loc, step(Num(e, args[0])).value());
  };
  auto loop = scf::WhileOp::create(e.builder, e.loc, state.type(), state.value(), before, after);
  return Num(e, loop.getResult(0));
}
