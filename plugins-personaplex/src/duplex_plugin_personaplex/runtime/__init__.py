"""The heavy half: loads the model and steps it. Only workers and model commands import it."""
