"""Arrays from a shape, evenly spaced numbers, meshes, files."""
