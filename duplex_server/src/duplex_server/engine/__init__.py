"""The engine: a thread with a loop, an orchestrator and stages.

Import its classes from their modules: the turn-based ones load nothing that has to do with
sessions, and a package that gathered them all would undo that.
"""
