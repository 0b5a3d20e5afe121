"""Metrics, the paper's figures, files of predictions and results, tables. None of it needs torch; `outgrow.evaluate.run` does."""

from outgrow.evaluate.metrics import Score, check_flag, flags_of, mean_std, score, wilson
from outgrow.evaluate.paper import Figure, paper_figure, paper_set
from outgrow.evaluate.predictions import Predictions, load_predictions, save_predictions
from outgrow.evaluate.report import Evaluation, Row, cells, read_results, render_table, table, write_results

__all__ = [
    "Evaluation",
    "Figure",
    "Predictions",
    "Row",
    "Score",
    "cells",
    "check_flag",
    "flags_of",
    "load_predictions",
    "mean_std",
    "paper_figure",
    "paper_set",
    "read_results",
    "render_table",
    "save_predictions",
    "score",
    "table",
    "wilson",
    "write_results",
]
