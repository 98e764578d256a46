// The element types that cross the launch boundary: their names in signatures and metadata (as in the language), their
// sizes, and the conversion of one element to and from the host's numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llvm {
struct fltSemantics;
}

namespace kiln::artifact {

enum class ElementType : uint8_t {
  I1,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  FP8E4NV,
  FP8E5,
  FP16,
  BF16,
  FP32,
  FP64,
  /// Only in arrays: kernels convert it by integer operations.
  FP8E4B15,
};

constexpr unsigned numElementTypes = unsigned(ElementType::FP8E4B15) + 1;

/// "i32", "fp32", "bf16", "fp8e4nv", "i1" …
std::string_view getName(ElementType type);

/// The name that kernels use, for messages: "int32" for i32; otherwise getName.
std::string getLanguageName(ElementType type);

/// Accepts the names that getName returns, and "u1" and "B" for a boolean.
std::optional<ElementType> parseElementType(std::string_view name);

/// Size in memory and in the argument block; a boolean takes one byte.
unsigned getBytes(ElementType type);

bool isFloat(ElementType type);
bool isSignedInteger(ElementType type);
inline bool isInteger(ElementType type) { return !isFloat(type); }

/// The value that a conversion rounds: 8-bit formats are clamped to their largest finite number, also from infinity.
double saturated(double value, const llvm::fltSemantics &semantics);

/// Writes `value` as one element: saturated, rounded to nearest even.
void encodeFloat(ElementType type, double value, void *destination);

/// Reads one element of a floating type.
double decodeFloat(ElementType type, const void *source);

/// Reads one element of an integer type, sign- or zero-extended.
uint64_t decodeInteger(ElementType type, const void *source);

} // namespace kiln::artifact
