"""``duplex serve``, registered through the hook of the ``duplex`` command."""
