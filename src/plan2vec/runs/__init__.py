"""The run folder on disk: products written whole, resumed after a kill, struck closures, time estimates."""
