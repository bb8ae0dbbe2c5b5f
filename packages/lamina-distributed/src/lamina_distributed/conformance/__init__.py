"""Conformance tests of lamina-distributed. Run them on any implementation: `python -m lamina_distributed.conformance`.

An implementation has `initialize` and `shutdown`. Between the two calls this process is a member of a group: the devices are
those of all processes, in the order of the processes, and programs run over them. It fills the hooks of
`lamina_runtime.extend.processes`.

The tests start processes on this machine, each with two CPU devices. Every process gets the address, the number of processes
and its own index. `initialization_timeout` and `heartbeat_timeout_seconds` are the only other arguments.

Marks, and which implementations may leave them out (`-m "core or collectives"`):

- `core`: a group forms, its devices are counted, processes exchange values on the host, and mistakes are errors. `shutdown`
  leaves the group, after which this process works alone.
- `collectives`: collectives of each kind over the devices of all processes equal NumPy's results.
- `loss`: a process that ends is a `ProcessLostError` in the others, which names it. They keep working alone. An
  implementation without it says how its programs end instead.
- `reform`: after a loss the other processes form a smaller group. An implementation may require that all are started again.
- `agreement`: processes that launch different programs get an error, and no data is exchanged. Otherwise their results are
  undefined.
"""
