// Element types of the launch boundary. Narrow floats are converted by APFloat: exactly, with a single rounding.
#include "runtime/artifact/ElementType.h"
#include "llvm/ADT/APFloat.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kiln::artifact;

namespace {
struct Row {
  std::string_view name;
  uint8_t bytes;
  bool floating;
  bool isSigned;
};
} // namespace

// In the order of the enumeration.
static constexpr Row rows[numElementTypes] = {
    {"i1", 1, false, false},  {"i8", 1, false, true},     {"i16", 2, false, true},  {"i32", 4, false, true},
    {"i64", 8, false, true},  {"u8", 1, false, false},    {"u16", 2, false, false}, {"u32", 4, false, false},
    {"u64", 8, false, false}, {"fp8e4nv", 1, true, true}, {"fp8e5", 1, true, true}, {"fp16", 2, true, true},
    {"bf16", 2, true, true},  {"fp32", 4, true, true},    {"fp64", 8, true, true},  {"fp8e4b15", 1, true, true},
};

std::string_view kiln::artifact::getName(ElementType type) { return rows[unsigned(type)].name; }
std::string kiln::artifact::getLanguageName(ElementType type) {
  std::string name(getName(type));
  if (isFloat(type))
    return name;
  return (name[0] == 'u' ? "uint" : "int") + name.substr(1);
}
unsigned kiln::artifact::getBytes(ElementType type) { return rows[unsigned(type)].bytes; }
bool kiln::artifact::isFloat(ElementType type) { return rows[unsigned(type)].floating; }
bool kiln::artifact::isSignedInteger(ElementType type) { return !isFloat(type) && rows[unsigned(type)].isSigned; }

std::optional<ElementType> kiln::artifact::parseElementType(std::string_view name) {
  if (name == "u1" || name == "B")
    return ElementType::I1;
  for (unsigned i = 0; i < numElementTypes; ++i)
    if (rows[i].name == name)
      return ElementType(i);
  return std::nullopt;
}

static const llvm::fltSemantics &getSemantics(ElementType type) {
  switch (type) {
  case ElementType::FP8E4NV:
    return llvm::APFloat::Float8E4M3FN();
  case ElementType::FP8E5:
    return llvm::APFloat::Float8E5M2();
  case ElementType::FP16:
    return llvm::APFloat::IEEEhalf();
  case ElementType::BF16:
    return llvm::APFloat::BFloat();
  case ElementType::FP32:
    return llvm::APFloat::IEEEsingle();
  default:
    return llvm::APFloat::IEEEdouble();
  }
}

double kiln::artifact::saturated(double value, const llvm::fltSemantics &semantics) {
  if (llvm::APFloat::getSizeInBits(semantics) != 8)
    return value;
  double largest = llvm::APFloat::getLargest(semantics).convertToDouble();
  return std::isnan(value) ? value : std::clamp(value, -largest, largest);
}

/// fp8e4b15 has fp16's bias, values up to 1.75 and neither infinity nor NaN, which become 1.75 too; ties round away
/// from zero.
static uint8_t encodeE4B15(double value) {
  double size = std::abs(value);
  unsigned code = 0x7e;
  if (size < 1.75) {
    int exponent = std::max(size > 0 ? std::ilogb(size) : -14, -14);
    code = 8 * (exponent + 14) + unsigned(std::floor(std::ldexp(size, 3 - exponent) + 0.5));
  }
  return uint8_t(code | (std::signbit(value) ? 0x80 : 0));
}

static double decodeE4B15(uint8_t code) {
  int exponent = code >> 3 & 15, mantissa = code & 7;
  double size = exponent ? std::ldexp(8 + mantissa, exponent - 18) : std::ldexp(mantissa, -17);
  return code & 0x80 ? -size : size;
}

void kiln::artifact::encodeFloat(ElementType type, double value, void *destination) {
  if (type == ElementType::FP8E4B15) {
    *static_cast<uint8_t *>(destination) = encodeE4B15(value);
    return;
  }
  if (type == ElementType::FP64) {
    std::memcpy(destination, &value, 8);
    return;
  }
  if (type == ElementType::FP32) {
    float single = float(value);
    std::memcpy(destination, &single, 4);
    return;
  }
  llvm::APFloat number(saturated(value, getSemantics(type)));
  bool losesInfo;
  number.convert(getSemantics(type), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  uint64_t bits = number.bitcastToAPInt().getZExtValue();
  std::memcpy(destination, &bits, getBytes(type)); // little-endian, as every target of Kiln
}

double kiln::artifact::decodeFloat(ElementType type, const void *source) {
  if (type == ElementType::FP8E4B15)
    return decodeE4B15(*static_cast<const uint8_t *>(source));
  if (type == ElementType::FP64) {
    double value;
    std::memcpy(&value, source, 8);
    return value;
  }
  if (type == ElementType::FP32) {
    float value;
    std::memcpy(&value, source, 4);
    return value;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, source, getBytes(type));
  llvm::APFloat number(getSemantics(type), llvm::APInt(8 * getBytes(type), bits));
  bool losesInfo;
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

uint64_t kiln::artifact::decodeInteger(ElementType type, const void *source) {
  unsigned bytes = getBytes(type);
  uint64_t bits = 0;
  std::memcpy(&bits, source, bytes);
  if (isSignedInteger(type) && bytes < 8) {
    unsigned shift = 64 - 8 * bytes;
    bits = uint64_t(int64_t(bits << shift) >> shift);
  }
  return bits;
}
