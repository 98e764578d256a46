// kiln-layout: draws a layout as text and as SVG, and says how it converts to another.
#include "dialects/layout/Conversion.h"
#include "dialects/layout/Memory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace kiln::layout;

static cl::OptionCategory category("kiln-layout options");
static cl::opt<std::string> layoutText(cl::Positional, cl::Required, cl::desc("<layout>"), cl::cat(category));
static cl::opt<std::string> toText("to", cl::desc("Say how a tile gets from the layout to this one"),
                                   cl::value_desc("layout"), cl::cat(category));
static cl::opt<std::string> svgFile("svg", cl::desc("Write a drawing"), cl::value_desc("file"), cl::cat(category));
static cl::opt<unsigned> elementBytes("bytes", cl::desc("Bytes of an element, for banks and costs (4)"), cl::init(4),
                                      cl::cat(category));

namespace {
/// The contents of one element's cell.
struct Cell {
  std::string text;
  int64_t color = -1; ///< thread or bank; negative: no place found yet
  int64_t places = 0;
};

/// The tile as pages of rows and columns, by its last two dimensions; a single row is wrapped.
struct Pages {
  explicit Pages(ArrayRef<int64_t> shape) {
    columns = shape.empty() ? 1 : shape.back();
    rows = shape.size() > 1 ? shape[shape.size() - 2] : 1;
    pages = 1;
    for (int64_t side : shape.drop_back(std::min<size_t>(2, shape.size())))
      pages *= side;
    if (rows == 1 && columns > wrap && columns % wrap == 0) {
      wrapped = true;
      rows = columns / wrap;
      columns = wrap;
    }
  }
  static constexpr int64_t wrap = 32;
  int64_t pages, rows, columns;
  bool wrapped = false;
};
} // namespace

static int64_t linear(const Layout &layout, const Index &element) {
  int64_t sum = 0;
  for (unsigned d = 0; d < layout.rank(); ++d)
    sum = sum * layout.shape()[d] + element[d];
  return sum;
}

static std::vector<Cell> cellsOf(const Layout &layout) {
  int64_t count = 1;
  for (int64_t side : layout.shape())
    count *= side;
  std::vector<Cell> cells(count);
  bool memory = !layout.digits(Coord::Offset).empty();
  Point point = {};
  auto visit = [&] {
    Cell &cell = cells[linear(layout, layout.at(point))];
    if (cell.places++)
      return;
    auto prefix = [&](Coord coord, StringRef letter) {
      return layout.size(coord) > 1 ? (letter + Twine(point[unsigned(coord)]) + " ").str() : std::string();
    };
    int64_t thread = point[unsigned(Coord::Lane)] + point[unsigned(Coord::Warp)] * layout.size(Coord::Lane);
    cell.text = prefix(Coord::Cta, "C") + prefix(Coord::Group, "G");
    if (memory) {
      int64_t offset = point[unsigned(Coord::Offset)];
      cell.color = offset * int64_t(elementBytes) / 4 % 32;
      cell.text += (Twine(offset) + ":b" + Twine(cell.color)).str();
    } else {
      cell.color = thread;
      cell.text += ("T" + Twine(thread) + ":" + Twine(point[unsigned(Coord::Reg)])).str();
    }
  };
  auto each = [&](Coord coord, auto next) {
    int64_t &value = point[unsigned(coord)];
    for (value = 0; value < layout.size(coord); ++value)
      next();
    value = 0;
  };
  each(Coord::Cta, [&] {
    each(Coord::Group, [&] {
      each(Coord::Warp, [&] { each(Coord::Lane, [&] { each(Coord::Reg, [&] { each(Coord::Offset, visit); }); }); });
    });
  });
  // An element with several places shows the first, its owner, and how many there are.
  for (Cell &cell : cells)
    if (cell.places > 1)
      cell.text += "x" + std::to_string(cell.places);
  return cells;
}

//===-- Text -----------------------------------------------------------------------------------------------------===//

static void printHead(const Layout &layout, raw_ostream &os) {
  os << layout.print() << "\n";
  for (unsigned c = 0; c < kNumCoords; ++c) {
    ArrayRef<Digit> digits = layout.digits(Coord(c));
    if (digits.empty())
      continue;
    os << formatv("  {0,-7} {1,5}  ", coordName(Coord(c)), layout.size(Coord(c)));
    for (const Digit &digit : digits) {
      os << " ";
      if (digit.radix != 2)
        os << digit.radix << "*";
      os << "(";
      interleaveComma(digit.basis, os);
      os << ")";
    }
    os << "\n";
  }
  if (!layout.digits(Coord::Offset).empty())
    return;
  os << "  runs          ";
  for (unsigned d = 0; d < layout.rank(); ++d)
    os << " " << layout.contiguity(d);
  os << "\n";
}

static void printGrid(const Layout &layout, raw_ostream &os) {
  std::vector<Cell> cells = cellsOf(layout);
  Pages pages(layout.shape());
  size_t width = 0;
  for (const Cell &cell : cells)
    width = std::max(width, cell.text.size());
  size_t position = 0;
  for (int64_t page = 0; page < pages.pages; ++page) {
    os << "\n";
    if (pages.pages > 1)
      os << "page " << page << "\n";
    for (int64_t row = 0; row < pages.rows; ++row) {
      os << formatv("{0,5} |", pages.wrapped ? row * pages.columns : row);
      for (int64_t column = 0; column < pages.columns; ++column) {
        const std::string &text = cells[position++].text;
        os << " " << text;
        if (column + 1 < pages.columns)
          os.indent(width - text.size());
      }
      os << "\n";
    }
  }
}

//===-- SVG ------------------------------------------------------------------------------------------------------===//

static void printSvg(const Layout &layout, raw_ostream &os) {
  constexpr int cellWidth = 58, cellHeight = 20, margin = 24;
  std::vector<Cell> cells = cellsOf(layout);
  Pages pages(layout.shape());
  bool memory = !layout.digits(Coord::Offset).empty();
  int64_t colors = 32;
  if (!memory)
    colors = layout.size(Coord::Lane) * layout.size(Coord::Warp);
  int64_t width = pages.columns * cellWidth + 2 * margin;
  int64_t height = pages.pages * (pages.rows * cellHeight + margin) + 2 * margin;
  os << formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"monospace\" "
                "font-size=\"10\">\n",
                width, height);
  os << formatv("<title>{0}</title>\n<text x=\"{1}\" y=\"16\">{0}</text>\n", layout.print(), margin);
  size_t position = 0;
  for (int64_t page = 0; page < pages.pages; ++page)
    for (int64_t row = 0; row < pages.rows; ++row)
      for (int64_t column = 0; column < pages.columns; ++column) {
        const Cell &cell = cells[position++];
        int64_t x = margin + column * cellWidth;
        int64_t y = margin + page * (pages.rows * cellHeight + margin) + row * cellHeight;
        // The hue cycles with the lane or bank; the lightness depends on the warp.
        int64_t hue = cell.color % 32 * 360 / 32, light = 88 - cell.color / 32 * 24 / std::max<int64_t>(1, colors / 32);
        os << formatv("<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"hsl({4},70%,{5}%)\" "
                      "stroke=\"white\"/><text x=\"{6}\" y=\"{7}\" text-anchor=\"middle\">{8}</text>\n",
                      x, y, cellWidth, cellHeight, hue, light, x + cellWidth / 2, y + 14, cell.text);
      }
  os << "</svg>\n";
}

//===-- Conversions ----------------------------------------------------------------------------------------------===//

static void printConversion(const Layout &from, const Layout &to, raw_ostream &os) {
  if (!to.digits(Coord::Offset).empty() && from.digits(Coord::Offset).empty()) {
    BankUse use = bankUse(from, to, elementBytes);
    os << formatv(
        "\nin memory {0}: {1} accesses of {2} bytes a warp, {3} passes over the banks, {4} of them conflicts\n",
        to.print(), use.instructions, use.vector * int64_t(elementBytes), use.wavefronts, use.conflicts());
    return;
  }
  Conversion plan = planConversion(from, to, elementBytes);
  os << "\nto " << to.print() << ": ";
  switch (plan.kind) {
  case ConversionKind::None:
    os << "nothing to do\n";
    return;
  case ConversionKind::Registers:
    os << "registers ";
    interleaveComma(plan.registers, os);
    os << "\n";
    return;
  case ConversionKind::Shuffle:
    os << count_if(plan.steps, [](const ShuffleStep &step) { return step.shuffles; }) << " shuffles, cost " << plan.cost
       << "\n";
    return;
  case ConversionKind::Shared: {
    Layout memory = chooseMemory(from, to, elementBytes);
    BankUse written = bankUse(from, memory, elementBytes), read = bankUse(to, memory, elementBytes);
    os << "shared memory" << (plan.crossesCtas ? " of other ctas" : "") << ", cost " << plan.cost << "\n  "
       << memory.print() << "\n"
       << formatv("  stores of {0} bytes, {1} conflicts; loads of {2} bytes, {3} conflicts\n",
                  written.vector * int64_t(elementBytes), written.conflicts(), read.vector * int64_t(elementBytes),
                  read.conflicts());
  }
  }
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv,
                              "Draws a layout: cells are T<thread>:<register>, or <offset>:b<bank> of shared memory; "
                              "x<n> where an element has n "
                              "places.\n\n  kiln-layout 'blocked [16, 64] vector 4 warps 2' --svg blocked.svg\n");
  auto parse = [](StringRef text) -> std::optional<Layout> {
    std::string error;
    std::optional<Layout> layout = Layout::parse(text, &error);
    if (!layout)
      errs() << "kiln-layout: '" << text << "': " << error << "\n";
    return layout;
  };
  if (!isPowerOf2_32(elementBytes) || elementBytes > 16) {
    errs() << "kiln-layout: expected --bytes 1, 2, 4, 8 or 16, got " << elementBytes << "\n";
    return 1;
  }
  std::optional<Layout> layout = parse(layoutText), to;
  if (!layout || (!toText.empty() && !(to = parse(toText))))
    return 1;
  if (to && to->shape() != layout->shape()) {
    errs() << "kiln-layout: expected both layouts to have the same sides\n";
    return 1;
  }
  printHead(*layout, outs());
  printGrid(*layout, outs());
  if (to) {
    auto alike = [&](Coord coord) { return layout->size(coord) == to->size(coord); };
    bool sameThreads = !to->digits(Coord::Offset).empty() ||
                       (alike(Coord::Lane) && alike(Coord::Warp) && alike(Coord::Group) && alike(Coord::Cta));
    if (!sameThreads) {
      errs() << "kiln-layout: expected both layouts to have the same threads\n";
      return 1;
    }
    printConversion(*layout, *to, outs());
  }
  if (!svgFile.empty()) {
    std::error_code error;
    raw_fd_ostream os(svgFile, error);
    if (error) {
      errs() << "kiln-layout: " << svgFile << ": " << error.message() << "\n";
      return 1;
    }
    printSvg(*layout, os);
  }
  return 0;
}
