"""Tuning: finding the configuration of a kernel that is fastest on this machine; storing and shipping the result.

arguments.py   arguments inside of tuples and structs
configs.py     one configuration: meta-parameters and launch options
tuning.py      one tuning, from the list of configurations to the best: what the others below are put together to
compiling.py   configurations to code, in parallel; which of them do not fit
race.py        samples in turn until there is a winner; knows no clock
clock.py       one sample: the wall clock for the CPU target, replays of a graph over rotated arrays on a GPU
isolate.py     samples taken in another process, which may hang or die
numerics.py    configurations that give the same bits
store.py       times between processes: what a time is kept under, and where
progress.py    what a terminal shows meanwhile
ahead.py       `kiln tune`: problems tuned ahead of time, into a file that a package ships
table.py       that file: what it has, for which machine and source
models.py      linear layers of known models, by name

`kiln.autotune` (`kiln.runtime.autotuner`) applies all this to a kernel.
"""
