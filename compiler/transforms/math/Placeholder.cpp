namespace kiln { int placeholder_kiln_math_transforms; }
