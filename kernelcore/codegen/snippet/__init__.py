"""C++ snippets: translation units, the system's compiler, calls from Python."""
