"""Stage 2: which frames are near each other, which of these closures to believe, and the graph of both."""
