"""The shells around the session core: what performs effects, crosses threads and keeps time.

Import from the modules; nothing here is meant for users of the server.
"""
