"""The wire: OpenAI's Realtime API and what a full-duplex session adds to it."""
