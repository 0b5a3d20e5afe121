"""Ground CSPs as models see them: batches of puzzles, the binarized graph, and the multi-valued model's CMPG and RMPG."""

from outgrow.graphs.batch import Batch, Puzzles
from outgrow.graphs.binarized import BinarizedGraph, binarize
from outgrow.graphs.multivalued import MultivaluedGraph, multivalue
from outgrow.graphs.schema import Schema

__all__ = ["Batch", "BinarizedGraph", "MultivaluedGraph", "Puzzles", "Schema", "binarize", "multivalue"]
