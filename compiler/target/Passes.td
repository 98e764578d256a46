// Passes on the module's target.
#ifndef KILN_TARGET_PASSES_TD
#define KILN_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetTargetPass : Pass<"kiln-set-target", "::mlir::ModuleOp"> {
  let summary = "attach a row of the target table to the module";
  let description = [{
    Sets the module attribute `kiln.target`. With an empty `target` it keeps the attribute that the module has, after
    checking that it is complete (hand-edited IR), or attaches the host's if there is none. Changes no operation.
  }];
  let options = [Option<"target", "target", "std::string", "\"\"", "name of the row, see `kiln info`">];
}

#endif // KILN_TARGET_PASSES_TD
