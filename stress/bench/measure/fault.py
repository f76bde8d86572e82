"""Exceptions that end the command with one line."""


class BadInput(Exception):
    """The user asked for something impossible; exit status 2."""


class Broken(Exception):
    """A run went wrong; exit status 1."""
