// The numbers travel as metadata of the diagnostic, so that no caller has to parse a sentence.
#include "compiler/target/Resource.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kiln;

static constexpr llvm::StringLiteral kResource = "kiln.resource", kRequired = "kiln.required",
                                     kAvailable = "kiln.available", kOption = "kiln.option";

std::string OutOfResource::message() const {
  return llvm::formatv("out of {0}: required {1}, available {2}{3}", resource, required, available,
                       option.empty() ? "" : " (reduce " + option + ")")
      .str();
}

InFlightDiagnostic kiln::emitOutOfResource(Operation *op, const OutOfResource &what) {
  Builder b(op->getContext());
  InFlightDiagnostic diagnostic = op->emitError(what.message());
  diagnostic.getUnderlyingDiagnostic()->getMetadata().push_back(DiagnosticArgument(b.getDictionaryAttr({
      b.getNamedAttr(kResource, b.getStringAttr(what.resource)),
      b.getNamedAttr(kRequired, b.getI64IntegerAttr(what.required)),
      b.getNamedAttr(kAvailable, b.getI64IntegerAttr(what.available)),
      b.getNamedAttr(kOption, b.getStringAttr(what.option)),
  })));
  return diagnostic;
}

std::optional<OutOfResource> kiln::outOfResource(mlir::Diagnostic &diagnostic) {
  for (DiagnosticArgument &argument : diagnostic.getMetadata()) {
    if (argument.getKind() != DiagnosticArgument::DiagnosticArgumentKind::Attribute)
      continue;
    auto numbers = dyn_cast<DictionaryAttr>(argument.getAsAttribute());
    if (!numbers || !numbers.contains(kResource))
      continue;
    return OutOfResource{numbers.getAs<StringAttr>(kResource).str(), numbers.getAs<IntegerAttr>(kRequired).getInt(),
                         numbers.getAs<IntegerAttr>(kAvailable).getInt(), numbers.getAs<StringAttr>(kOption).str()};
  }
  return std::nullopt;
}
