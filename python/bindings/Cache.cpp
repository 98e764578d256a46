// The artifact cache for Python: keys, entries and the store. Failures become an OSError with the store's message.
#include "python/bindings/Cache.h"
#include "python/bindings/Bindings.h"
#include "python/bindings/Interpreter.h"
#include "runtime/cache/Store.h"
#include <pybind11/stl.h>

namespace py = pybind11;
namespace json = llvm::json;
using namespace kiln;
using kiln::python::PyFields;
using kiln::python::WithoutLock;

[[noreturn]] static void raise(const Status &status) {
  PyErr_SetString(PyExc_OSError, status.getMessage().c_str());
  throw py::error_already_set();
}

static py::list describeFields(const std::vector<artifact::KeyField> &fields) {
  py::list list;
  for (const artifact::KeyField &field : fields)
    list.append(py::make_tuple(field.name, field.value, field.bytes));
  return list;
}

static py::dict describeFacts(const json::Object &facts) {
  py::dict dictionary;
  for (const auto &[name, value] : facts)
    if (std::optional<llvm::StringRef> text = value.getAsString())
      dictionary[py::str(name.str())] = text->str();
  return dictionary;
}

static py::dict describe(const cache::Manifest &manifest) {
  return py::dict(py::arg("key") = manifest.getKey(), py::arg("kind") = manifest.kind,
                  py::arg("subject") = manifest.subject, py::arg("fields") = describeFields(manifest.fields),
                  py::arg("facts") = describeFacts(manifest.facts), py::arg("bytes") = manifest.getBytes());
}

namespace {
struct PyCache {
  std::unique_ptr<cache::Store> store;
};
} // namespace

/// (entry or None, doubt)
static py::tuple search(PyCache &self, const std::string &key) {
  cache::Found found = [&] {
    WithoutLock released;
    return self.store->load(key);
  }();
  py::object entry = py::none();
  if (found.entry)
    entry = py::cast(std::move(*found.entry));
  return py::make_tuple(entry, found.doubt);
}

static std::string publish(PyCache &self, const std::string &kind, const std::string &subject, const PyFields &fields,
                           const std::map<std::string, py::bytes> &contents,
                           const std::map<std::string, std::string> &facts) {
  cache::Manifest manifest;
  manifest.kind = kind;
  manifest.subject = subject;
  manifest.fields = fields.fields;
  for (auto &[name, text] : facts)
    manifest.facts[name] = text;
  std::vector<cache::File> files;
  for (auto &[name, bytes] : contents)
    files.push_back({name, std::string(bytes)});
  ErrorOr<std::string> key = [&] {
    WithoutLock released;
    return self.store->publish(std::move(manifest), files);
  }();
  if (!key.ok())
    raise(key.getStatus());
  return *key;
}

static py::list entries(PyCache &self) {
  std::vector<std::optional<cache::Manifest>> manifests;
  std::vector<cache::Listed> listed = [&] {
    WithoutLock released;
    return self.store->list(&manifests);
  }();
  py::list list;
  for (auto [entry, manifest] : llvm::zip(listed, manifests)) {
    py::dict described = manifest ? describe(*manifest) : py::dict(py::arg("key") = entry.key, py::arg("kind") = "");
    described["bytes"] = entry.bytes;
    described["used"] = double(entry.used) / 1e9;
    list.append(described);
  }
  return list;
}

void kiln::python::bindCache(py::module_ &m) {
  py::class_<PyFields>(m, "Fields", "What a key is made of: names and values, in order.")
      .def_static(
          "of_items",
          [](const std::vector<std::tuple<std::string, std::string, uint64_t>> &items) {
            PyFields fields;
            for (auto &[name, value, bytes] : items)
              fields.fields.push_back({name, value, bytes});
            return fields;
          },
          py::arg("items"), "Of what `items` gives.")
      .def(py::init([](const std::vector<std::pair<std::string, std::string>> &items) {
             PyFields fields;
             for (auto &[name, value] : items)
               fields.fields.push_back(artifact::makeField(name, value));
             return fields;
           }),
           py::arg("items"))
      .def(
          "key", [](const PyFields &self, const std::string &kind) { return artifact::makeKey(kind, self.fields); },
          py::arg("kind"), "The key of a kind of thing that is made of them.")
      .def_property_readonly(
          "items", [](const PyFields &self) { return describeFields(self.fields); },
          "(name, value, 0), or (name, digest, bytes) for a value that is kept as its digest.");

  py::class_<cache::Entry>(m, "CacheEntry", "An entry of the cache, every byte of it checked.")
      .def_readonly("key", &cache::Entry::key)
      .def_property_readonly("kind", [](const cache::Entry &self) { return self.manifest.kind; })
      .def_property_readonly("subject", [](const cache::Entry &self) { return self.manifest.subject; })
      .def_property_readonly("fields", [](const cache::Entry &self) { return describeFields(self.manifest.fields); })
      .def_property_readonly(
          "facts", [](const cache::Entry &self) { return describeFacts(self.manifest.facts); },
          "What a reader is told.")
      .def(
          "fact",
          [](const cache::Entry &self, const std::string &name) -> py::object {
            std::optional<llvm::StringRef> text = self.manifest.facts.getString(name);
            return text ? py::object(py::str(text->str())) : py::none();
          },
          py::arg("name"), "A fact that is text, or None.")
      .def_property_readonly("files",
                             [](const cache::Entry &self) {
                               py::list names;
                               for (const cache::File &file : self.files)
                                 names.append(file.name);
                               return names;
                             })
      .def(
          "read",
          [](const cache::Entry &self, const std::string &name) {
            const std::string *bytes = self.find(name);
            if (!bytes)
              throw py::key_error(name);
            return py::bytes(*bytes);
          },
          py::arg("name"), "The bytes of a file.");

  py::class_<PyCache>(m, "Cache", "A folder of artifacts by key: see runtime/cache/Store.h.")
      .def(py::init([](const std::string &path, bool readOnly, uint64_t bound) {
             cache::StoreOptions options;
             options.readOnly = readOnly;
             options.bound = bound;
             ErrorOr<std::unique_ptr<cache::Store>> store = cache::Store::open(path, options);
             if (!store.ok())
               raise(store.getStatus());
             return PyCache{std::move(*store)};
           }),
           py::arg("path"), py::arg("read_only") = false, py::arg("bound") = 0)
      .def_property_readonly("path", [](const PyCache &self) { return self.store->getPath(); })
      .def("load", search, py::arg("key"),
           "(entry, ''), (None, '') where there is none, (None, why) where it was not what its manifest says.")
      .def(
          "set_aside",
          [](PyCache &self, const std::string &key) {
            WithoutLock released;
            self.store->setAside(key);
          },
          py::arg("key"), "Moves an entry to quarantine, if there is one and the store is not only read.")
      .def("publish", publish, py::arg("kind"), py::arg("subject"), py::arg("fields"), py::arg("files"),
           py::arg("facts"), "Adds an entry, unless there is one; returns its key.")
      .def("entries", entries, "Every entry as a dictionary, by key.")
      .def(
          "collect",
          [](PyCache &self, uint64_t bound) {
            cache::Collected done = [&] {
              WithoutLock released;
              return self.store->collect(bound);
            }();
            return py::dict(py::arg("entries") = done.entries, py::arg("bytes") = done.bytes,
                            py::arg("removed_entries") = done.removedEntries,
                            py::arg("removed_bytes") = done.removedBytes);
          },
          py::arg("bound"), "Removes what was not used for longest until the rest takes at most `bound` bytes.")
      .def(
          "recent",
          [](PyCache &self, const std::string &kind, const std::string &subject) {
            py::list list;
            for (const cache::Manifest &manifest : self.store->recent(kind, subject))
              list.append(describe(manifest));
            return list;
          },
          py::arg("kind"), py::arg("subject"), "The last few entries about a subject, the last first.")
      .def(
          "nearest",
          [](PyCache &self, const std::string &kind, const std::string &subject, const PyFields &fields) -> py::object {
            std::optional<cache::Manifest> nearest = self.store->nearest(kind, subject, fields.fields);
            return nearest ? py::object(describe(*nearest)) : py::none();
          },
          py::arg("kind"), py::arg("subject"), py::arg("fields"),
          "Of these the one that has most fields in common, but not all.");
}
