"""Stage 4: a metric map, an embedding whose distances are shortest-path lengths in steps."""
