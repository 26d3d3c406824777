"""What can be typed, and what is then done."""
