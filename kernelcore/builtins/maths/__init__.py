"""Elementary functions written once, over basic operations, for every target and lane count."""
