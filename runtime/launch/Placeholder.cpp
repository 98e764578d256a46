namespace kiln { int placeholder_kiln_launch; }
