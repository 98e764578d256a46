"""An emulator of PTX; see README.md."""
