namespace kiln { int placeholder_kiln_support; }
