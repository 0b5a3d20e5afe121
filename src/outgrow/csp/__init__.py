"""The logic: lifted CSPs, their grounding, their graphs and the verdict. `outgrow.csp.exact` needs python-sat."""

from outgrow.csp.graph import EdgeType, TypedGraph, constraint_graph, relation_graph
from outgrow.csp.ground import GroundCSP
from outgrow.csp.lifted import Constraint, Groups, LiftedCSP
from outgrow.csp.singles import find_singles
from outgrow.csp.verdict import Broken, Verdict, judge, judge_batch, judge_each

__all__ = [
    "Broken",
    "Constraint",
    "EdgeType",
    "GroundCSP",
    "Groups",
    "LiftedCSP",
    "TypedGraph",
    "Verdict",
    "constraint_graph",
    "find_singles",
    "judge",
    "judge_batch",
    "judge_each",
    "relation_graph",
]
