"""OpenAI's Realtime API as it stands: events, commands, formats, items, the error envelope."""
