namespace kiln { int placeholder_kiln_tile_to_cpu; }
