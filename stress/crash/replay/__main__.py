"""ci/replay: command.py, in a process of its own."""

import os
import sys

sys.dont_write_bytecode = True  # installed, a package would leave it behind
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import worker  # noqa: E402

worker.become_worker()

import command  # noqa: E402

sys.exit(command.main())
