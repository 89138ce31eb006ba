"""The conformance kit: whether a plugin keeps the contract, and what to do where it does not."""

from __future__ import annotations

from .breach import LawBrokenError
from .run import LawResult, run_laws
from .subject import Subject
from .suite import ModelConformance

__all__ = ["LawBrokenError", "LawResult", "ModelConformance", "Subject", "run_laws"]
