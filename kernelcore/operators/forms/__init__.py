"""Forms of an operator: what runs it on the arrays of one framework."""
