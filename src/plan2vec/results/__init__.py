"""Rows of results, and tables, figures and pages made from them: shared by experiments and benchmarks."""
