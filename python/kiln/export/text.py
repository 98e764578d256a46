"""The files of an export: a C header, a C++17 header over it, two sources, machine code, and what CMake needs.

    NAME.h            C: NAME_load, NAME_launch
    NAME.hpp          C++17: class NAMESPACE::NAME
    NAME.cpp          both functions
    NAME_code.cpp     the variants: metadata, and code for GPUs as constants
    NAME.I.TARGET.*   code of variant I: cubin or ptx (for tools: it is in NAME_code.cpp too), o (linked)
    NAME.kernel.cmake, CMakeLists.txt    target NAME, for add_subdirectory

The text depends on nothing but the kernel, its variants and the tools: the same export gives the same bytes. It is
formatted as by clang-format.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from kiln.export.interface import Argument, Compiled, Interface, _c_name

_WIDTH = 120

_CPP_ELEMENTS = {
    "i1": "bool", "i8": "std::int8_t", "i16": "std::int16_t", "i32": "std::int32_t", "i64": "std::int64_t",
    "u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t", "u64": "std::uint64_t",
    "fp8e4nv": "kiln::f8e4m3", "fp8e5": "kiln::f8e5m2", "fp16": "kiln::f16", "bf16": "kiln::bf16", "fp32": "float",
    "fp64": "double", "fp8e4b15": "std::uint8_t",
}  # fmt: skip


def write_files(interface: Interface, directory: str) -> list[str]:
    """Writes every file of the export; their paths."""
    os.makedirs(directory, exist_ok=True)
    files: dict[str, bytes] = {}
    name = interface.name
    files[f"{name}.h"] = c_header(interface).encode()
    files[f"{name}.hpp"] = cpp_header(interface).encode()
    files[f"{name}.cpp"] = source(interface).encode()
    files[f"{name}_code.cpp"] = code_source(interface).encode()
    for index, variant in enumerate(interface.variants):
        files[_code_file(name, index, variant)] = variant.binary
    files[f"{name}.kernel.cmake"] = cmake(interface).encode()
    files["CMakeLists.txt"] = CMAKE_LISTS.encode()
    paths = []
    for file, data in files.items():
        path = os.path.join(directory, file)
        paths.append(path)
        with open(path, "wb") as out:
            out.write(data)
    return paths


def _code_file(name: str, index: int, variant: Compiled) -> str:
    return f"{name}.{index}.{variant.target}.{variant.extension}"


# ---- types -----------------------------------------------------------------------------------------------------------
def _cpp_number(type: str) -> str:
    """The C++ type that a number of this type is passed as; float for narrow floats."""
    element = _CPP_ELEMENTS[type]
    return "float" if element.startswith("kiln::") else element


def _c_number(type: str) -> str:
    return _cpp_number(type).removeprefix("std::")


_CONSTANTS = {"bool": "bool", "int": "std::int64_t", "float": "double", "str": "const char *"}


def _declare(type: str, name: str) -> str:
    return f"{type}{name}" if type.endswith("*") else f"{type} {name}"


def _c_parameter(argument: Argument) -> str:
    if argument.kind == "array":
        return _declare("void *" if argument.written else "const void *", argument.name)
    if argument.kind == "any array":
        return f"kiln_array {argument.name}"
    if argument.kind == "descriptor":
        return f"const kiln_descriptor *{argument.name}"
    if argument.kind == "constant":
        return _declare(_CONSTANTS[argument.type].removeprefix("std::"), argument.name)
    number = _c_number(argument.type)
    return f"const {number} *{argument.name}" if argument.kind == "optional number" else f"{number} {argument.name}"


def _cpp_parameter(argument: Argument) -> str:
    if argument.kind in ("array", "descriptor"):
        element = ("" if argument.written else "const ") + _CPP_ELEMENTS[argument.type]
        if argument.kind == "array":
            return f"kiln::Array<{element}> {argument.name}"
        return f"const kiln::Descriptor<{element}, {argument.rank}> &{argument.name}"
    if argument.kind == "any array":
        return f"kiln::AnyArray {argument.name}"
    if argument.kind == "constant":
        return _declare(_CONSTANTS[argument.type], argument.name)
    number = _cpp_number(argument.type)
    return (
        f"std::optional<{number}> {argument.name}"
        if argument.kind == "optional number"
        else f"{number} {argument.name}"
    )


def _pass_on(argument: Argument) -> str:
    """The expression that passes a C++ argument to the C function."""
    if argument.kind == "array":
        return f"{argument.name}.data()"
    if argument.kind == "descriptor":
        return f"&described_{argument.name}"
    if argument.kind == "optional number":
        return f"{argument.name} ? &*{argument.name} : nullptr"
    return argument.name


def _packed(argument: Argument) -> str:
    """The expression that passes a C argument to kiln_kernel_launch."""
    name = argument.name
    if argument.kind == "array":
        return f"kiln_pointer({name}, KILN_{argument.type.upper()})"
    if argument.kind == "any array":
        return f"kiln_pointer({name}.data, {name}.element)"
    if argument.kind == "descriptor":
        return f"kiln_described({name})"
    if argument.kind == "constant":
        return {"bool": "kiln_bool", "int": "kiln_integer", "float": "kiln_float", "str": "kiln_text"}[
            argument.type
        ] + f"({name})"
    kind = (
        "kiln_bool"
        if argument.type == "i1"
        else {"i": "kiln_integer", "u": "kiln_unsigned", "f": "kiln_float", "b": "kiln_float"}[argument.type[0]]
    )
    return f"{name} ? {kind}(*{name}) : kiln_none()" if argument.kind == "optional number" else f"{kind}({name})"


# ---- layout ----------------------------------------------------------------------------------------------------------
def _fill(head: str, items: Sequence[str], tail: str) -> str:
    """`head` followed by the items, as many on a line as fit, with further lines aligned to the first item."""
    lines, line = [], head
    for index, item in enumerate(items):
        piece = item + (tail if index == len(items) - 1 else ",")
        space = "" if line == head or line.isspace() else " "
        if line not in (head,) and len(line) + len(space) + len(piece) > _WIDTH:
            lines.append(line)
            line, space = " " * len(head), ""
        line += space + piece
    return "\n".join([*lines, line if items else head + tail])


def _comment(text: str, mark: str, hanging: str = "") -> str:
    """A paragraph as a comment, broken at words."""
    lines = textwrap.wrap(
        text, _WIDTH - len(mark) - 1, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(f"{mark} {line}".rstrip() for line in lines or [""])


def _indent(text: str, by: str = "  ") -> str:
    return "\n".join(by + line if line else line for line in text.splitlines())


# ---- what is said ----------------------------------------------------------------------------------------------------
def _origin(interface: Interface) -> str:
    return f"Launches of kernel {interface.kernel} of {interface.file}. Made by `kiln export`: do not edit."


def _value(value: Any) -> str:
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)


def _describe_variant(index: int, variant: Compiled) -> str:
    facts = [
        f"{label}={_value(item.value) if item.kind == 'constexpr' else item.spelled_type}"
        for label, item in variant.leaves
    ]
    options = [f"{name}={value!r}" for name, value in variant.options.items() if value is not None]
    text = f"{index}. {variant.target}: {', '.join(facts)}"
    if options:
        text += f"; launched with {', '.join(options)}"
    if variant.arrays_apart:
        text += f"; no other array may overlap {', '.join(variant.arrays_apart)}"
    return text


def _describe_argument(argument: Argument) -> str:
    if argument.kind == "array":
        text = f"array of {argument.type}, {'written' if argument.written else 'read'}"
    elif argument.kind == "descriptor":
        text = f"array of {argument.type} in blocks, rank {argument.rank}, {'written' if argument.written else 'read'}"
    elif argument.kind == "any array":
        text = f"array of an element type that a variant has, {'written' if argument.written else 'read'}"
    elif argument.kind == "constant":
        text = "chooses the variant"
    else:
        text = argument.type + (" or nothing" if argument.kind == "optional number" else "")
    # The name `a_rows` already says that it is the item a.rows.
    told = argument.label.replace(".", "_") == argument.name
    return text if told else f"{text}; `{argument.label}` in Python"


def _documentation(interface: Interface, mark: str) -> Iterator[str]:
    for paragraph in filter(None, interface.documentation.split("\n\n")):
        yield _comment(" ".join(paragraph.split()), mark)
        yield mark
    yield _comment("Variants; a launch takes the most special one that its arguments fit and its device runs:", mark)
    for index, variant in enumerate(interface.variants):
        yield _comment(_describe_variant(index, variant), mark + "  ", "    ")


def _about_null(interface: Interface) -> list[str]:
    """The comment on null pointers. A launch cannot check them: whether memory is accessed depends on masks and other
    arguments."""
    if not any(argument.kind in ("array", "any array", "descriptor") for argument in interface.arguments):
        return []
    return [
        "An array may be null where the kernel touches none of it, which a launch cannot know: to touch it ends the "
        "process on the CPU, and loses the device on a GPU."
    ]


# ---- files -----------------------------------------------------------------------------------------------------------
def _launch_declaration(interface: Interface) -> str:
    parameters = [
        "kiln_kernel *kernel",
        "kiln_stream stream",
        "kiln_grid grid",
        *map(_c_parameter, interface.arguments),
    ]
    return _fill(f"kiln_status {interface.name}_launch(", parameters, ")")


def c_header(interface: Interface) -> str:
    """NAME.h"""
    name, guard = interface.name, f"KILN_EXPORT_{interface.name.upper()}_H"
    arguments = [f"{a.name}: {_describe_argument(a)}" for a in interface.arguments]
    said = "\n".join(
        [_comment(line, " *", "  ") for line in arguments] + [_comment(line, " *") for line in _about_null(interface)]
    )
    return f"""/* {_origin(interface)} */
#ifndef {guard}
#define {guard}
#include <kiln/runtime.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Makes the kernel, to be released by kiln_kernel_release. Touches no device. */
kiln_status {name}_load(kiln_kernel **kernel);

/* Launches a grid of it, from any thread.
{said or " * It takes no arguments."} */
{_launch_declaration(interface)};

#ifdef __cplusplus
}}
#endif
#endif
"""


def cpp_header(interface: Interface) -> str:
    """NAME.hpp"""
    name = interface.name
    parts = []
    taken = {"load", "launch", "prepare", "kernel_", name}
    for label, value in interface.constants:
        if isinstance(value, (bool, int, float, str)):
            constant = _constant(_c_name(label, taken), value)
            if constant:
                parts.append(constant)
    constants = "  // The same in every variant:\n" + "\n".join("  " + part for part in parts) + "\n\n" if parts else ""
    parameters = ["kiln::Stream stream", "kiln::Grid grid", *map(_cpp_parameter, interface.arguments)]
    signature = _fill("kiln::Status launch(", parameters, ") const {")
    # The declaration stands two columns in.
    if any(len(line) > _WIDTH - 2 for line in signature.splitlines()):
        signature = _fill("  kiln::Status launch(", parameters, ") const {")
        signature = "\n".join(line[2:] for line in signature.splitlines())
    described = "".join(
        f"    const kiln_descriptor described_{a.name} = {a.name}.get();\n"
        for a in interface.arguments
        if a.kind == "descriptor"
    )
    given = ["kernel_.get()", "stream", "grid", *map(_pass_on, interface.arguments)]
    call = _fill(f"    return kiln::Status::of({name}_launch(", given, "));")
    said = "\n".join(
        [_comment(f"{a.name}: {_describe_argument(a)}", "  ///  ", "  ") for a in interface.arguments]
        + [_comment(line, "  ///") for line in _about_null(interface)]
    )
    said = f"{said}\n" if said else ""
    documentation = "\n".join(_documentation(interface, "///"))
    return f"""// {_origin(interface)}
#pragma once
#include "{name}.h"
#include <kiln/runtime.hpp>

namespace {interface.namespace} {{

{documentation}
class {name} {{
public:
{constants}  /// Touches no device: code is put on one by the first launch there, or by `prepare`.
  static kiln::Result<{name}> load() {{
    kiln::Result<kiln::Kernel> made = kiln::Kernel::create({name}_load);
    if (!made)
      return made.status();
    return {name}(*std::move(made));
  }}

  /// Loads all that `device` runs, so that no launch there has to: before a graph is captured, or a request is timed.
  kiln::Status prepare(int device) const {{ return kernel_.prepare(device); }}

{said}{_indent(signature)}
{described}{call}
  }}

private:
  explicit {name}(kiln::Kernel kernel) : kernel_(std::move(kernel)) {{}}
  kiln::Kernel kernel_;
}};

}} // namespace {interface.namespace}
"""


def _constant(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"static constexpr bool {name} = {str(value).lower()};"
    if isinstance(value, int):
        return f"static constexpr std::int64_t {name} = {value};" if -(2**63) < value < 2**63 else ""
    if isinstance(value, float):
        return f"static constexpr double {name} = {value!r};" if value == value and abs(value) != float("inf") else ""
    return f"static constexpr const char *{name} = {_literal(value)};"


def _literal(text: str) -> str:
    """A string of C: its UTF-8, with everything but plain characters as octal escapes."""
    plain = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n"}
    return '"' + "".join(plain.get(c) or (chr(c) if 32 <= c < 127 else f"\\{c:03o}") for c in text.encode()) + '"'


def source(interface: Interface) -> str:
    """NAME.cpp"""
    name = interface.name
    if interface.arguments:
        items = "".join(f"      {_packed(argument)},\n" for argument in interface.arguments)
        body = (
            f"  const kiln_argument arguments[] = {{\n{items}  }};\n"
            "  return kiln_kernel_launch(kernel, stream, grid, arguments, sizeof arguments / sizeof *arguments);"
        )
    else:
        body = "  return kiln_kernel_launch(kernel, stream, grid, nullptr, 0);"
    return f"""// {_origin(interface)}
#include "{name}.h"

/// In {name}_code.cpp.
extern const kiln_export {name}_export;

kiln_status {name}_load(kiln_kernel **kernel) {{ return kiln_kernel_create(&{name}_export, kernel); }}

{_launch_declaration(interface)} {{
{body}
}}
"""


def _words(binary: bytes) -> Iterator[str]:
    padded = binary + b"\0" * (-len(binary) % 8)
    words = [f"0x{int.from_bytes(padded[i : i + 8], 'little'):016x}," for i in range(0, len(padded), 8)]
    for start in range(0, len(words), 6):
        yield "    " + " ".join(words[start : start + 6])


def code_source(interface: Interface) -> str:
    """NAME_code.cpp"""
    name, lines = interface.name, []
    entries = [i for i, variant in enumerate(interface.variants) if variant.extension == "o"]
    if entries:
        lines.append('extern "C" {')
        for index in entries:
            symbol = interface.variants[index].metadata["symbol"]
            lines.append(
                f"void {symbol}(const void *arguments, const KilnLaunch *launch, std::int64_t begin, std::int64_t end);"
            )
        lines += ["}", ""]
    rows = []
    for index, variant in enumerate(interface.variants):
        metadata = json.dumps(variant.metadata, sort_keys=True, separators=(",", ":"))
        # Compilers limit string literals to 64 KB.
        pieces = [metadata[i : i + 16000] for i in range(0, len(metadata), 16000)]
        lines.append(f"static const char metadata_{index}[] =")
        lines += [f"    {_literal(piece)}" for piece in pieces]
        lines[-1] += ";"
        code, size, entry = "nullptr", "0", "nullptr"
        if variant.extension == "o":
            entry = variant.metadata["symbol"]
        else:
            lines.append(f"static const std::uint64_t code_{index}[] = {{")
            lines += _words(variant.binary)
            lines.append("};")
            code, size = f"code_{index}", str(len(variant.binary))
        rows.append(f"    {{{_literal(interface.signatures[index])}, metadata_{index}, {code}, {size}, {entry}}},")
        lines.append("")
    names = ", ".join(_literal(argument.label) for argument in interface.arguments)
    parameters = f"static const char *const parameters[] = {{{names}}};\n\n" if names else ""
    body = "\n".join(lines)
    table = "\n".join(rows)
    given = "parameters, " + str(len(interface.arguments)) if names else "nullptr, 0"
    return f"""// {_origin(interface)}
// clang-format off
#include "{name}.h"
#include <cstdint>

{body}
{parameters}static const kiln_variant variants[] = {{
{table}
}};

extern const kiln_export {name}_export;
const kiln_export {name}_export = {{
    KILN_RUNTIME_VERSION, {_literal(interface.kernel)}, {given}, variants, {len(rows)},
}};
"""


def cmake(interface: Interface) -> str:
    """NAME.kernel.cmake"""
    name = interface.name
    objects = [
        _code_file(name, index, variant) for index, variant in enumerate(interface.variants) if variant.extension == "o"
    ]
    sources = "\n".join(
        f"  ${{CMAKE_CURRENT_LIST_DIR}}/{file}" for file in [f"{name}.cpp", f"{name}_code.cpp", *objects]
    )
    return f"""# Kernel {interface.kernel} of {interface.file}. Made by `kiln export`: do not edit.
add_library({name} STATIC
{sources})
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_LIST_DIR}})
target_link_libraries({name} PUBLIC kiln::runtime)
target_compile_features({name} PUBLIC cxx_std_17)
set_target_properties({name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
"""


CMAKE_LISTS = """# Every kernel that was exported into this folder: add_subdirectory it, and link the target with the
# kernel's name. `kiln config --cmake-dir` says where kiln_DIR is. Made by `kiln export`: do not edit.
cmake_minimum_required(VERSION 3.20)
if(NOT TARGET kiln::runtime)
  find_package(kiln CONFIG REQUIRED)
endif()
file(GLOB kernels "${CMAKE_CURRENT_LIST_DIR}/*.kernel.cmake")
foreach(kernel IN LISTS kernels)
  include("${kernel}")
endforeach()
"""
