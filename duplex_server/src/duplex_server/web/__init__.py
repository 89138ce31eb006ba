"""The demo page: static files, no build step, nothing from elsewhere."""
