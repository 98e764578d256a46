#include "compiler/pipeline/UserAssembly.h"
#include "dialects/tile/TileOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace kiln;

UserAssembly kiln::collectAssembly(ModuleOp module) {
  UserAssembly texts;
  module.walk([&](tile::InlineAsmOp op) { texts.emplace_back(op.getAssembly().str(), op.getLoc()); });
  return texts;
}

/// Words separated by single spaces: LLVM's indentation and line ends do not matter.
static std::string squeezed(StringRef text) {
  SmallVector<StringRef> words;
  for (StringRef line : llvm::split(text, '\n'))
    llvm::SplitString(line, words, " \t\r");
  return llvm::join(words, " ");
}

/// A regex that matches a text with any operands.
static llvm::Regex patternOf(StringRef text) {
  std::string pattern = "^";
  std::string words = squeezed(text);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != '$') {
      pattern += llvm::Regex::escape(StringRef(words).substr(i, 1));
    } else if (i + 1 < words.size() && words[i + 1] == '$') {
      pattern += "\\$";
      ++i;
    } else {
      pattern += "[^,; ]+";
      // $0, or ${0:c} with a modifier.
      if (i + 1 < words.size() && words[i + 1] == '{')
        i = std::min(words.find('}', i), words.size() - 1);
      else
        while (i + 1 < words.size() && llvm::isDigit(words[i + 1]))
          ++i;
    }
  }
  return llvm::Regex(pattern + "$");
}

/// The lines between LLVM's marks around the inline assembly that contains line `number` (from 1); "" if there is none.
static std::string inlineBlock(StringRef ptx, unsigned number) {
  SmallVector<StringRef> lines;
  ptx.split(lines, '\n');
  if (number == 0 || number > lines.size())
    return "";
  unsigned begin = number - 1, end = number - 1;
  while (begin > 0 && !lines[begin].contains("begin inline asm") && !lines[begin].contains("end inline asm"))
    --begin;
  while (end < lines.size() && !lines[end].contains("end inline asm") && !lines[end].contains("begin inline asm"))
    ++end;
  if (end >= lines.size() || !lines[begin].contains("begin inline asm") || !lines[end].contains("end inline asm"))
    return "";
  return llvm::join(ArrayRef(lines).slice(begin + 1, end - begin - 1), "\n");
}

LogicalResult kiln::reportRefused(const UserAssembly &texts, StringRef ptx, StringRef said) {
  SmallVector<StringRef> found;
  unsigned number = 0;
  if (!llvm::Regex("line ([0-9]+); (error|fatal) *: ([^\n]*)").match(said, &found) || found[1].getAsInteger(10, number))
    return success();
  std::string block = squeezed(inlineBlock(ptx, number));
  for (const auto &[text, location] : texts)
    if (!block.empty() && patternOf(text).match(block))
      return emitError(location) << "expected PTX that the assembler takes, got '" << text
                                 << "': ptxas says: " << found[3].rtrim();
  return success();
}
