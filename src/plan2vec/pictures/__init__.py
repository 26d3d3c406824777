"""Figures, film strips, videos, and the report."""
