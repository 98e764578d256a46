// kiln-opt: reads IR, runs the passes named on the command line, prints IR. Every lit test uses it.
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Program.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kiln::registerDialects(registry);
  kiln::registerPasses();
  llvm::InitLLVM init(argc, argv);
  auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "Kiln optimizer driver\n", registry);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(input, &error);
  std::unique_ptr<llvm::ToolOutputFile> result = mlir::openOutputFile(output, &error);
  if (!file || !result || !(error = kiln::findUnparsable(file->getBuffer())).empty()) {
    llvm::errs() << (file && result ? input + ": error: " : "") << error << "\n";
    return 1;
  }
  if (mlir::failed(mlir::MlirOptMain(result->os(), std::move(file), registry, config)))
    return 1;
  result->keep();
  return 0;
}
