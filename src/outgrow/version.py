"""The version, in a file of its own so that packaging need not import the package."""

__version__ = "0.1.0"
