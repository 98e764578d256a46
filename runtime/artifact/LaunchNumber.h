// Numbers that a launch computes from its arguments and its grid, in the notation of the metadata: postfix, with spaces
// between operands and operators.
//
//   "$0 127 + 128 /"    the first parameter and 127, divided by 128
//   "last1 programs0 *" the index of the last program along axis 1 times the count of programs along axis 0
#pragma once
#include "runtime/artifact/ElementType.h"
#include "runtime/support/Status.h"
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace kiln::artifact {
struct ArgumentSpec;

class LaunchNumber {
public:
  /// `arguments` are the kernel's. Each `$` has to name an integer of at least 32 bits among them.
  static ErrorOr<LaunchNumber> parse(llvm::StringRef text, llvm::ArrayRef<ArgumentSpec> arguments);

  /// Computes in 64 bits, without wrapping; std::nullopt if a divisor is zero or a result does not fit. `block`: the
  /// packed arguments; `programs`: the number of programs along each axis.
  std::optional<int64_t> evaluate(llvm::ArrayRef<ArgumentSpec> arguments, const void *block,
                                  const std::array<int64_t, 3> &programs) const;

  const std::string &getText() const { return text; }

private:
  enum class Kind : uint8_t { Constant, Argument, Last, Programs, Add, Sub, Mul, Div, Rem, Min, Max };
  struct Word {
    Kind kind;
    int64_t number = 0; ///< the constant, the argument's index, or the axis
  };
  static std::optional<Word> parseWord(llvm::StringRef word, llvm::ArrayRef<ArgumentSpec> arguments);

  std::string text;
  std::vector<Word> words;
};

} // namespace kiln::artifact
