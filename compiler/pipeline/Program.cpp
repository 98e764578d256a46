#include "compiler/pipeline/Program.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/layout/LayoutDialect.h"
#include "dialects/tile/TileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kiln;

void kiln::registerDialects(DialectRegistry &registry) {
  registry.insert<kgpu::KgpuDialect, layout::LayoutDialect, tile::TileDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                  tensor::TensorDialect, ub::UBDialect, vector::VectorDialect>();
  func::registerInlinerExtension(registry);
  // Registers the dialect; its own header is the largest of MLIR.
  registerNVVMDialectTranslation(registry);
}

static std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registerDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // Messages are for users: do not print the operation below them.
  context->printOpOnDiagnostic(false);
  return context;
}

Program::Program() : context(makeContext()) {
  context->loadDialect<tile::TileDialect>();
  module = ModuleOp::create(UnknownLoc::get(context.get()));
}

std::string kiln::findUnparsable(llvm::StringRef text) {
  bool inString = false;
  unsigned line = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    llvm::StringRef rest = text.drop_front(at);
    if (rest.front() == '\n')
      ++line;
    if (inString && rest.front() == '\\') {
      ++at;
    } else if (rest.front() == '"') {
      inString = !inString;
    } else if (inString) {
      continue;
    } else if (rest.starts_with("//")) {
      at += rest.find_first_of('\n') == llvm::StringRef::npos ? rest.size() : rest.find_first_of('\n') - 1;
    } else if (rest.consume_front("array") && rest.ltrim().consume_front("<")) {
      llvm::StringRef element = rest.ltrim().drop_front().ltrim();
      element = element.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      if (element == "index")
        return "line " + std::to_string(line) + ": expected an integer or float type in array<...>, got index";
    }
  }
  return "";
}

std::unique_ptr<Program> Program::parse(const std::string &text, std::string &error) {
  error = findUnparsable(text);
  if (!error.empty())
    return nullptr;
  auto program = std::make_unique<Program>();
  llvm::raw_string_ostream stream(error);
  ScopedDiagnosticHandler handler(program->context.get(), [&](Diagnostic &diagnostic) {
    stream << diagnostic.getLocation() << ": " << diagnostic << "\n";
    return success();
  });
  program->module = parseSourceString<ModuleOp>(text, ParserConfig(program->context.get()));
  if (!program->module)
    return nullptr;
  return program;
}

std::string Program::print(bool locations, bool generic) {
  std::lock_guard<std::mutex> lock(mutex);
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo(true, false);
  if (generic)
    flags.printGenericOpForm();
  module->print(stream, flags);
  stream << "\n";
  return text;
}

bool Program::verify(std::string &error) {
  std::lock_guard<std::mutex> lock(mutex);
  llvm::raw_string_ostream stream(error);
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    stream << diagnostic.getLocation() << ": " << diagnostic << "\n";
    return success();
  });
  return succeeded(mlir::verify(*module));
}
