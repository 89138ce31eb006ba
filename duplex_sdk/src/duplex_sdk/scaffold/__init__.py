"""New plugin projects: a name that can be one, files rendered from templates, a folder written.

Importing this package loads neither jinja2 nor the templates.
"""

from __future__ import annotations

from .errors import PluginNameError, ProjectWriteError
from .folder import write_project
from .names import ProjectName
from .project import Kind, render_project

__all__ = [
    "Kind",
    "PluginNameError",
    "ProjectName",
    "ProjectWriteError",
    "render_project",
    "write_project",
]
