"""The gate for CI: limits, what is measured for them, and the result."""
