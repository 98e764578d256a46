// kiln-opt: reads IR, runs the passes named on the command line, prints IR. The tool every lit test uses.
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Program.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kiln::registerDialects(registry);
  kiln::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Kiln optimizer driver\n", registry));
}
