"""Retrieval: what a request asks for, the candidates, their order and what is shown."""

from . import pipeline as pipeline
from . import request as request
