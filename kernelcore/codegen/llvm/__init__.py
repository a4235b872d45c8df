"""IR to LLVM text: values, memory, control flow, and the kernel around them."""
