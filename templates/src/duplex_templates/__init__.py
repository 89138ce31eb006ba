"""Project templates, as package data: ``plugin/`` is what ``duplex new-plugin`` renders."""
