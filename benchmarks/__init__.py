"""Speed and memory, as ratios measured side by side in one run. Nothing here is a test."""
