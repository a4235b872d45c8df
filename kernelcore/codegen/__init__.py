"""IR to machine code: one emitter of LLVM text, and the targets that assemble it."""
