// Ops of the tile dialect: what MLIR's tensor, arith, math, scf and func lack. One file per topic.
#ifndef KILN_TILE_OPS_TD
#define KILN_TILE_OPS_TD

include "TileProgram.td"
include "TileMemory.td"
include "TileShape.td"
include "TileCompute.td"
include "TileDebug.td"

#endif // KILN_TILE_OPS_TD
