// Specialisation: the facts about a call's arguments that compiled code may depend on. The rules are only here;
// launching, ahead-of-time compilation and export all use them.
//
// One pass over a call's arguments encodes the call in two strings of bytes:
//   key    what the code depends on, self-describing: `decodeKey` returns the specialisations
//   block  the packed values that the code reads, laid out as artifact::layoutArguments lays them out
//
// The rules, for a parameter that is not constexpr:
//   None                       becomes a constant
//   bool                       i1
//   int                        the first of i32, i64, u64 that holds it; 1 becomes a constant (unless
//                              do_not_specialize); divisibility by 16 is recorded (unless do_not_specialize or
//                              do_not_specialize_on_alignment), and for strides of descriptors by 8 and 4 as well,
//                              which is 16 bytes of narrower types
//   float                      fp32
//   array                      pointer to its element type; divisibility of the address by 16 is recorded as for int
//   annotated with a type      that type, whatever the value: an int does not become a constant
//   tuple                      item by item, with the names of its fields if it has any; for a struct also its class,
//                              and the fields that are constexpr as constants
//   descriptor                 by element type, block shape and padding; its base like an array; likewise whether rows
//                              are a multiple of 16 bytes (all of its strides are)
#pragma once
#include "runtime/artifact/Artifact.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace kiln::launch {

using artifact::ElementType;

/// What the kernel's author declared for one parameter.
struct ParameterRule {
  std::string name;
  bool isConstexpr = false;
  bool specialize = true;                   ///< not named in do_not_specialize
  bool specializeAlignment = true;          ///< not named in do_not_specialize_on_alignment
  bool isStride = false;                    ///< used as a stride where the kernel makes descriptors
  llvm::ArrayRef<std::string> strideFields; ///< fields of a tuple that are used so
  std::optional<ElementType> annotation;    ///< the type that a scalar is annotated with
};

/// Which divisors of an integer the code may depend on.
class DivisorRule {
public:
  DivisorRule() = default;
  /// `describes`: the integer may become a stride of a descriptor. Then 0 counts as no stride: repeated rows are no
  /// array.
  DivisorRule(const ParameterRule &rule, bool describes)
      : by16(rule.specialize && rule.specializeAlignment), by4(by16 && (rule.isStride || describes)),
        notOfZero(describes) {}

  /// The facts about a value in a key: equal for values that share code.
  char tell(uint64_t value) const {
    if (!by16 || (notOfZero && value == 0))
      return 0;
    if (value % 16 == 0)
      return divisible;
    return !by4 ? 0 : value % 8 == 0 ? by8Flag : value % 4 == 0 ? by4Flag : 0;
  }

  static constexpr char divisible = 1, by8Flag = 8, by4Flag = 16;

private:
  bool by16 = false, by4 = false, notOfZero = false;
};

/// One parameter as the compiler sees it.
struct Specialization {
  enum class Kind : uint8_t {
    None,
    Bool,
    Integer,
    BigInteger,
    Float,
    String,
    Object, // constants up to here
    Scalar,
    Pointer,
    Descriptor,
    Tuple,
  };
  Kind kind = Kind::None;
  bool divisible = false;                 ///< Scalar, Pointer, Descriptor: by 16
  uint8_t divisor = 1;                    ///< Scalar that is not divisible by 16: 8, 4 or 1
  bool wholeRows = false;                 ///< Descriptor: 16 divides the bytes of a row
  bool nanPadding = false;                ///< Descriptor
  ElementType element = ElementType::I32; ///< Scalar, Pointer, Descriptor
  int64_t integer = 0; ///< Bool, Integer, Object (the id that the caller chose), Tuple (its class's id, 0 for none)
  double number = 0;   ///< Float
  std::string text;    ///< String, BigInteger (hexadecimal), Tuple (names of fields, separated by commas)
  llvm::SmallVector<int64_t, 4> block; ///< Descriptor
  std::vector<Specialization> items;   ///< Tuple

  bool isConstant() const { return kind < Kind::Scalar; }
  /// "*fp32", "i32", "tensordesc<fp32[64,64]>"; empty for constants and tuples.
  std::string getType() const;
};

/// Encodes one call at a time. Reuse it between calls: it keeps its memory.
class CallEncoder {
public:
  void clear();
  /// Starts as if previous arguments had taken `bytes` of the block, to encode a single argument in its place.
  void startAt(size_t bytes);
  /// The bytes of the block that arguments have taken so far.
  size_t getUsed() const { return used; }

  // Values of a parameter that is not constexpr. Integers that do not fit the annotation are refused.
  void addNone();
  Status addBool(const ParameterRule &rule, bool value);
  Status addInteger(const ParameterRule &rule, int64_t value);
  /// As `addInteger`, for a parameter without annotation.
  void addPlainInteger(const ParameterRule &rule, int64_t value);
  Status addUnsigned(const ParameterRule &rule, uint64_t value); ///< above the range of int64
  Status addFloat(const ParameterRule &rule, double value);
  void addPointer(const ParameterRule &rule, ElementType element, const void *address);
  void addDescriptor(const ParameterRule &rule, ElementType element, const void *base, llvm::ArrayRef<int64_t> block,
                     bool nanPadding, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides);
  /// The items follow. `fields`: names, separated by commas. `classId`: the caller's id for a struct's class, 0 for
  /// none.
  void beginTuple(size_t items, llvm::StringRef fields = {}, int64_t classId = 0);

  // Constants.
  void addConstantBool(bool value);
  void addConstantInteger(int64_t value);
  void addConstantBigInteger(llvm::StringRef number);
  void addConstantFloat(double value);
  void addConstantString(llvm::StringRef value);
  void addConstantObject(int64_t id);

  /// Says whether pointers may become descriptors, so that any integer added from now on may be a stride. Then 0 counts
  /// as no stride: repeated rows are no array.
  void setDescribes(bool whether) { describes = whether; }
  /// Removes what the key says of integers for that reason alone.
  void dropDescribed();

  /// True if every non-constant integer added so far, and every extent and stride, is from 0 to artifact::kMostCount.
  bool isBounded() const { return bounded; }

  /// Drops everything that was added to the key after its first `bytes` bytes; must be constants only.
  void truncateKey(size_t bytes) { key.truncate(bytes); }

  llvm::StringRef getKey() const { return {key.data(), key.size()}; }
  /// The packed block; valid until the next change, 16-byte aligned, at least 8 bytes readable past the last argument.
  const void *getBlock();
  size_t getBlockBytes() const { return (used + 7) / 8 * 8; }

private:
  void *reserve(unsigned bytes); ///< space for one argument at natural alignment
  void addKeyBytes(const void *data, size_t size);
  void addKeyInteger(int64_t value);
  void addScalarKey(ElementType element, char divisibility = 0);
  void addIntegerKey(const ParameterRule &rule, ElementType element, uint64_t value);

  llvm::SmallVector<char, 256> key;
  llvm::SmallVector<uint64_t, 64> block;
  llvm::SmallVector<std::pair<size_t, char>, 8> dropped; ///< for dropDescribed: places in the key, new contents
  size_t used = 0;
  bool bounded = true, describes = false;
};

/// Checks what every target asks of a tensor descriptor. These are the limits of the GPUs' copy engines, so that a
/// program that runs on one target runs on all.
Status checkDescriptor(ElementType element, const void *base, llvm::ArrayRef<int64_t> block,
                       llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides);

/// The specialisations in a key, one per parameter.
std::vector<Specialization> decodeKey(llvm::StringRef key);

/// The key that `decodeKey` would decode to these.
std::string encodeKey(llvm::ArrayRef<Specialization> specializations);

/// The arguments of the compiled function: constants dropped, tuples and descriptors flattened, offsets assigned. Names
/// are `x`, `pair.0`, `desc.shape.1`.
std::vector<artifact::ArgumentSpec> flatten(llvm::ArrayRef<std::string> names,
                                            llvm::ArrayRef<Specialization> specializations, uint32_t &blockBytes);

/// True if the code expects its arguments where a call packs them.
bool isPackedFor(const artifact::Metadata &metadata, llvm::ArrayRef<artifact::ArgumentSpec> packed,
                 uint32_t blockBytes);

/// Parses one item of a textual signature: "*fp32:16", "i32", "i32:1", "1024", "2.5", "True", "None", "'text'",
/// "tensordesc<fp16[64,32]>:16:rows", "(*fp32, i32:16)", "(data=*fp32, rows=i32)". ":16" states divisibility (for
/// integers also ":8" and ":4"), ":rows" that rows are a multiple of 16 bytes; ":1" makes the constant 1.
ErrorOr<Specialization> parseSpecialization(llvm::StringRef text);

/// Parses the items of a signature, separated by commas.
ErrorOr<std::vector<Specialization>> parseSignature(llvm::StringRef text);

} // namespace kiln::launch
