"""The caching driver, from kernel to code; the interpreter. May import: codegen and below."""
