"""The contract of full-duplex speech serving: wire codec, plugin types, session core, client."""
