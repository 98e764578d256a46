namespace kiln { int placeholder_kiln_artifact; }
