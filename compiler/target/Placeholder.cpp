namespace kiln { int placeholder_kiln_target; }
