"""The caching driver, from kernel to code. May import: codegen and below."""
