"""Python source to IR. May import: builtins and below."""
