"""LLVM itself: the host's processor, machine code, the compiler process."""
