"""Forward and reverse mode: IR to IR."""
