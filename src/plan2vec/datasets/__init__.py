"""What a map says about a dataset of episodes: progress of every frame, an audit, exports."""
