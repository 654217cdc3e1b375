"""Whole files that a benchmark writes, one module for each tool.

A log is read line by line, and its formats are found anywhere in it. A document is claimed by what stands in
its first bytes and read record by record: see `parsers.documents.reader`.
"""
