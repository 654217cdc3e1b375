"""The findings, each with its evidence and its fixes."""
