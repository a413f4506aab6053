"""What the process tells about itself: metrics, logs, and the rules for what may be shown."""
