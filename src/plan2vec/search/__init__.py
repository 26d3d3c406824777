"""Stage 3: shortest paths on the graph, on CPU cores and on a GPU, and what they cost."""
