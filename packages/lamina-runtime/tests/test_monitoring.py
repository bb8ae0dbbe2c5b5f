"""Monitoring events, memory profiles, layouts of compiled programs, and other inquiries."""
import ctypes

import lamina_runtime as lr
import numpy as np
import pytest
from lamina_ir import monitoring, trees
from lamina_runtime import ffi, profiler
from lamina_tracing import jit, lax


def test_events_are_reported_to_listeners():
    events = []
    monitoring.register_event_listener(lambda event, **facts: events.append((event, facts)))
    monitoring.register_event_duration_secs_listener(lambda event, seconds, **facts: events.append((event, seconds > 0)))
    try:
        monitoring.record_event("/a", n=1)
        jit(lambda x: lax.add(lax.sin(x), 0.123)).lower(np.ones(17, np.float32)).compile()
    finally:
        monitoring.clear_event_listeners()
    assert events[0] == ("/a", {"n": 1})
    assert set(events[1:]) <= {("/lamina/compile/backend_compile_duration", True)}
    with pytest.raises(TypeError, match="expected a function"):
        monitoring.register_event_listener(3)


# (record, register, unregister) functions, and the values after the name of the event
KINDS = {"event": ("event", "event", "event", ()),
         "duration": ("event_duration_secs", "event_duration_secs", "event_duration", (1.5,)),
         "time span": ("event_time_span", "event_time_span", "event_time_span", (1.0, 2.5)),
         "scalar": ("scalar", "scalar", "scalar", (3,))}


@pytest.mark.parametrize("kind", KINDS)
def test_listeners_of_each_kind_are_removed(kind):
    recorded, registered, unregistered, values = KINDS[kind]
    record = getattr(monitoring, f"record_{recorded}")
    register, unregister = (getattr(monitoring, f"{verb}_{name}_listener")
                            for verb, name in (("register", registered), ("unregister", unregistered)))
    seen, others = [], []

    def listener(*args, **data):
        seen.append((args, data))

    try:
        register(listener)
        register(lambda *args, **data: others.append((args, data)))
        record("/a", *values, n=1)
        unregister(listener)
        record("/b", *values)
    finally:
        monitoring.clear_event_listeners()
    record("/c", *values)
    assert seen == [(("/a", *values), {"n": 1})] and others == [*seen, (("/b", *values), {})]
    with pytest.raises(ValueError, match="callback must be a registered listener; got "):
        unregister(listener)
    with pytest.raises(TypeError, match=f"register_{registered}_listener: expected a function; got int"):
        register(3)


def test_layouts_of_compiled_programs():
    f = jit(lambda x, unused: (lax.sin(x), {"t": lax.transpose(x, (1, 0))}))
    compiled = f.lower(np.ones((2, 3), np.float32), 1.0).compile()
    (x, unused), named = compiled.input_layouts()
    assert x.device_local_layout.major_to_minor == (0, 1) and unused is None and named == {}
    one, two = compiled.output_layouts()
    assert one.sharding == compiled.output_shardings[0] and sorted(two["t"].device_local_layout.major_to_minor) == [0, 1]


def test_memory_profile_and_profiler_server(tmp_path):
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    assert (tmp_path / "memory.prof").read_bytes()[:2] == b"\x1f\x8b"
    with pytest.raises(ValueError, match="server is not running"):
        profiler.stop_server()


def test_environment_info_and_unsupported_calls(capsys):
    assert lr.print_environment_info() is None and "jaxlib" in capsys.readouterr().out
    assert type(ffi.pycapsule(ctypes.CDLL(None).abs)).__name__ == "PyCapsule"
    with pytest.raises(TypeError, match="pycapsule: expected a function"):
        ffi.pycapsule("abs")
    with pytest.raises(NotImplementedError, match="io_callback"):
        lr.devices()[0].transfer_to_infeed(1)
    structure = trees.tree_structure((1, [2, 3]))
    assert trees.build_tree(structure, [1, (2, 3)]) == (1, [2, 3]) and isinstance(structure, trees.PyTreeDef)
    made = trees.default_registry.make_treedef((list, None), structure.children())
    assert trees.tree_unflatten(made, [1, 2, 3]) == [1, [2, 3]]
    sharding = lr.device_put(1.0).sharding
    assert all(hasattr(lr.Sharding, n) for n in ("device_set", "is_equivalent_to", "shard_shape")) and sharding.device_set
