"""IR to LLVM text or PTX, and to machine code. May import: passes and below."""
