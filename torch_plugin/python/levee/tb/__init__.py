"""The TensorBoard plugin "levee"; TensorBoard finds it by its entry point."""

from levee.tb.plugin import LeveePlugin

__all__ = ["LeveePlugin"]
