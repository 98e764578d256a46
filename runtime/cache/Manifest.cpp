// Prints and parses manifests.
#include "runtime/cache/Manifest.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kiln;
using namespace kiln::cache;
namespace json = llvm::json;

bool kiln::cache::isFileName(llvm::StringRef name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '.' || c == '-' || c == '_'; });
}

bool kiln::cache::isKey(llvm::StringRef text) {
  return text.size() == 64 && llvm::all_of(text, [](char c) { return llvm::isDigit(c) || (c >= 'a' && c <= 'f'); });
}

uint64_t Manifest::getBytes() const {
  uint64_t bytes = 0;
  for (const Listed &file : files)
    bytes += file.bytes;
  return bytes;
}

/// The first line: `{"sha256":"<64 digits>",`.
static constexpr llvm::StringLiteral kBeforeDigest{"{\"sha256\":\""}, kAfterDigest{"\",\n"};

std::string Manifest::print() const {
  json::Array fieldList, fileList;
  for (const artifact::KeyField &field : fields)
    fieldList.push_back(
        field.bytes ? json::Object{{"name", field.name}, {"sha256", field.value}, {"bytes", int64_t(field.bytes)}}
                    : json::Object{{"name", field.name}, {"value", field.value}});
  for (const Listed &file : files)
    fileList.push_back(json::Object{{"name", file.name}, {"bytes", int64_t(file.bytes)}, {"sha256", file.digest}});
  json::Value body = json::Object{{"format", kFormat},
                                  {"key", getKey()},
                                  {"kind", kind},
                                  {"subject", subject},
                                  {"fields", std::move(fieldList)},
                                  {"facts", json::Object(facts)},
                                  {"files", std::move(fileList)}};
  std::string text = llvm::formatv("{0:2}\n", body).str();
  text.erase(0, text.find('\n') + 1); // the opening brace, which the line of the digest has
  return (kBeforeDigest + artifact::digest(text) + kAfterDigest + text).str();
}

ErrorOr<Manifest> Manifest::parse(llvm::StringRef text) {
  auto refuse = [](const llvm::Twine &why) { return corrupt(("the manifest " + why).str()); };
  llvm::StringRef rest = text, stated;
  if (!rest.consume_front(kBeforeDigest) || rest.size() < 64 || !isKey(stated = rest.take_front(64)) ||
      !(rest = rest.drop_front(64)).consume_front(kAfterDigest))
    return refuse("does not begin with its digest");
  if (artifact::digest(rest) != stated)
    return refuse("does not match its digest");
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return refuse("is not JSON: " + llvm::toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object || object->getInteger("format") != kFormat)
    return refuse("has an unknown format");
  Manifest manifest;
  std::optional<llvm::StringRef> key = object->getString("key"), kind = object->getString("kind"),
                                 subject = object->getString("subject");
  const json::Array *fields = object->getArray("fields"), *files = object->getArray("files");
  const json::Object *facts = object->getObject("facts");
  if (!key || !kind || !subject || !fields || !files || !facts)
    return refuse("lacks a member");
  manifest.kind = kind->str();
  manifest.subject = subject->str();
  manifest.facts = *facts;
  for (const json::Value &item : *fields) {
    const json::Object *field = item.getAsObject();
    std::optional<llvm::StringRef> name = field ? field->getString("name") : std::nullopt;
    std::optional<llvm::StringRef> plain = field ? field->getString("value") : std::nullopt;
    std::optional<llvm::StringRef> digest = field ? field->getString("sha256") : std::nullopt;
    std::optional<int64_t> bytes = field ? field->getInteger("bytes") : std::nullopt;
    if (!name || (plain ? bool(digest) : !digest || !bytes || *bytes <= 0))
      return refuse("has a malformed field");
    manifest.fields.push_back({name->str(), plain ? plain->str() : digest->str(), plain ? 0 : uint64_t(*bytes)});
  }
  for (const json::Value &item : *files) {
    const json::Object *file = item.getAsObject();
    std::optional<llvm::StringRef> name = file ? file->getString("name") : std::nullopt;
    std::optional<llvm::StringRef> digest = file ? file->getString("sha256") : std::nullopt;
    std::optional<int64_t> bytes = file ? file->getInteger("bytes") : std::nullopt;
    if (!name || !isFileName(*name) || *name == kFileName || !digest || !isKey(*digest) || !bytes || *bytes < 0)
      return refuse("lists a malformed file");
    manifest.files.push_back({name->str(), uint64_t(*bytes), digest->str()});
  }
  if (manifest.getKey() != *key)
    return refuse("has a key that does not match its fields");
  return std::move(manifest);
}
