// Parses and evaluates numbers of a launch.
#include "runtime/artifact/LaunchNumber.h"
#include "runtime/artifact/Artifact.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace kiln;
using namespace kiln::artifact;

// The most operands on the stack: more than any kernel needs.
static constexpr unsigned kMostOpen = 32;

std::optional<LaunchNumber::Word> LaunchNumber::parseWord(llvm::StringRef word,
                                                          llvm::ArrayRef<ArgumentSpec> arguments) {
  auto kind = llvm::StringSwitch<std::optional<Kind>>(word)
                  .Case("+", Kind::Add)
                  .Case("-", Kind::Sub)
                  .Case("*", Kind::Mul)
                  .Case("/", Kind::Div)
                  .Case("%", Kind::Rem)
                  .Case("min", Kind::Min)
                  .Case("max", Kind::Max)
                  .Default(std::nullopt);
  if (kind)
    return Word{*kind};
  kind = Kind::Constant;
  if (word.consume_front("$"))
    kind = Kind::Argument;
  else if (word.consume_front("last"))
    kind = Kind::Last;
  else if (word.consume_front("programs"))
    kind = Kind::Programs;
  int64_t number;
  if (word.getAsInteger(10, number))
    return std::nullopt;
  if (kind == Kind::Argument) {
    if (number < 0 || size_t(number) >= arguments.size())
      return std::nullopt;
    const ArgumentSpec &argument = arguments[number];
    if (argument.kind != ArgumentKind::Scalar || !isInteger(argument.element) || argument.size < 4)
      return std::nullopt;
  } else if (kind != Kind::Constant && (number < 0 || number > 2)) {
    return std::nullopt;
  }
  return Word{*kind, number};
}

ErrorOr<LaunchNumber> LaunchNumber::parse(llvm::StringRef text, llvm::ArrayRef<ArgumentSpec> arguments) {
  LaunchNumber number;
  number.text = text.str();
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ' ');
  unsigned open = 0;
  for (llvm::StringRef part : parts) {
    std::optional<Word> word = parseWord(part, arguments);
    if (!word)
      return invalidArgument(llvm::formatv("expected a number of a launch, got '{0}' in '{1}'", part, text));
    bool isOperator = word->kind >= Kind::Add;
    if (isOperator ? open < 2 : open == kMostOpen)
      return invalidArgument(llvm::formatv("expected two operands in front of each operator, and at most {0} that wait "
                                           "for one, got '{1}'",
                                           kMostOpen, text));
    open += isOperator ? -1 : 1;
    number.words.push_back(*word);
  }
  if (open != 1)
    return invalidArgument(llvm::formatv("expected one number, got {0} in '{1}'", open, text));
  return number;
}

std::optional<int64_t> LaunchNumber::evaluate(llvm::ArrayRef<ArgumentSpec> arguments, const void *block,
                                              const std::array<int64_t, 3> &programs) const {
  int64_t open[kMostOpen];
  unsigned count = 0;
  for (const Word &word : words) {
    switch (word.kind) {
    case Kind::Constant:
      open[count++] = word.number;
      continue;
    case Kind::Argument: {
      const ArgumentSpec &argument = arguments[word.number];
      open[count++] =
          readInteger(argument, static_cast<const char *>(block), !artifact::isSignedInteger(argument.element));
      continue;
    }
    case Kind::Last:
      open[count++] = programs[word.number] - 1;
      continue;
    case Kind::Programs:
      open[count++] = programs[word.number];
      continue;
    default:
      break;
    }
    int64_t b = open[--count], &a = open[count - 1];
    bool fits = true;
    switch (word.kind) {
    case Kind::Add:
      fits = !llvm::AddOverflow(a, b, a);
      break;
    case Kind::Sub:
      fits = !llvm::SubOverflow(a, b, a);
      break;
    case Kind::Mul:
      fits = !llvm::MulOverflow(a, b, a);
      break;
    case Kind::Div:
    case Kind::Rem:
      fits = b != 0 && (a != INT64_MIN || b != -1);
      if (fits)
        a = word.kind == Kind::Div ? a / b : a % b;
      break;
    case Kind::Min:
      a = std::min(a, b);
      break;
    default:
      a = std::max(a, b);
      break;
    }
    if (!fits)
      return std::nullopt;
  }
  return open[0];
}
