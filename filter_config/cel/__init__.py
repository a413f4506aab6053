"""CEL for cost rules: one interface over two engines that accept, refuse and compute the same.

``cel-expr-python`` (Google's C++ engine) is the default. Where it is not installed, or where it refuses an expression
only for its nesting, ``cel-python`` reads the expression and a static checker of ours types and evaluates it.
"""

from filter_config.cel.costs import CostProgram, compile_cost, cost_warnings
from filter_config.cel.engine import CELError, CostVariables, Engine, engines

__all__ = ["CELError", "CostProgram", "CostVariables", "Engine", "compile_cost", "cost_warnings", "engines"]
