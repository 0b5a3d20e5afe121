"""Ground CSPs as models see them: batches of puzzles, the binarized and the grouped graph, the multi-valued model's CMPG and RMPG."""

from outgrow.graphs.batch import Batch, GroupTables, Puzzles
from outgrow.graphs.binarized import BinarizedGraph, binarize
from outgrow.graphs.grouped import GroupedGraph, NodeGroups, group_nodes
from outgrow.graphs.hetero import to_hetero
from outgrow.graphs.multivalued import MultivaluedGraph, multivalue
from outgrow.graphs.schema import Schema

__all__ = [
    "Batch",
    "BinarizedGraph",
    "GroupTables",
    "GroupedGraph",
    "MultivaluedGraph",
    "NodeGroups",
    "Puzzles",
    "Schema",
    "binarize",
    "group_nodes",
    "multivalue",
    "to_hetero",
]
