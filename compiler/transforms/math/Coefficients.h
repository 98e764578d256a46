// The numbers behind the formulas, chosen by element type. Coefficients.inc is written by coefficients.py.
#pragma once
#include "compiler/transforms/math/Emitter.h"

namespace kiln::expand {
namespace tables {
#include "compiler/transforms/math/Coefficients.inc"
} // namespace tables

/// Tables that exist for f32 and f64.
struct Tables {
  llvm::ArrayRef<double> ln2, log2e, log10e, log10Of2, halfPi, pi, twoOverPi, quarterPi;
  llvm::ArrayRef<double> exp, exp2, sin, cos, sinh, atan, asin;
};

inline const Tables &tablesFor(Num x) {
  using namespace tables;
  static const Tables single = {kLn2F32, kLog2eF32,     kLog10eF32,    kLog10Of2F32, kHalfPiF32,
                                kPiF32,  kTwoOverPiF32, kQuarterPiF32, kExpF32,      kExp2F32,
                                kSinF32, kCosF32,       kSinhF32,      kAtanF32,     kAsinF32};
  static const Tables twice = {kLn2F64, kLog2eF64,     kLog10eF64,    kLog10Of2F64, kHalfPiF64,
                               kPiF64,  kTwoOverPiF64, kQuarterPiF64, kExpF64,      kExp2F64,
                               kSinF64, kCosF64,       kSinhF64,      kAtanF64,     kAsinF64};
  return x.element().isF32() ? single : twice;
}
} // namespace kiln::expand
