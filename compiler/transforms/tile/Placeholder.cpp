namespace kiln { int placeholder_kiln_tile_transforms; }
