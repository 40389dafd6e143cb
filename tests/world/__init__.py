"""The desktop benchmark: a model that errs, on a real Win32 desktop.

Each run makes a Wine desktop of its own, opens the programs of a task, plays the model and runs the program; files and
registry decide whether the task is done, never anybody's word. The model knows the true state of the desktop (spy.py
asks Windows) and by rules what comes next (tasks.py); then it errs like a small vision model (model.py). It reads
nothing but the request, so that texts which no longer tell what was done show here. `python -m tests.long world` runs it.
"""
