// Numbers that a launch computes from its arguments and its grid, as metadata spells them: operands in front of
// operators, with spaces between.
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
  /// `arguments`: those of the kernel. Each `$` has to be an integer of at least 32 bits among them.
  static ErrorOr<LaunchNumber> parse(llvm::StringRef text, llvm::ArrayRef<ArgumentSpec> arguments);

  /// In 64 bits, without wrapping; std::nullopt where a divisor is zero or a result does not fit. `block`: the packed
  /// arguments; `programs`: how many there are along each axis.
  std::optional<int64_t> evaluate(llvm::ArrayRef<ArgumentSpec> arguments, const void *block,
                                  const std::array<int64_t, 3> &programs) const;

  const std::string &getText() const { return text; }

private:
  enum class Kind : uint8_t { Constant, Argument, Last, Programs, Add, Sub, Mul, Div, Rem, Min, Max };
  struct Word {
    Kind kind;
    int64_t number = 0; ///< the constant, the index of the argument, the axis
  };
  static std::optional<Word> parseWord(llvm::StringRef word, llvm::ArrayRef<ArgumentSpec> arguments);

  std::string text;
  std::vector<Word> words;
};

} // namespace kiln::artifact
