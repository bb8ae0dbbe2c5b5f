"""`SignatureCache`: which programs are stored."""
from __future__ import annotations

import logging
import threading

import pytest
from lamina_ir import config, shaped
from lamina_tracing import enable_x64, explain_cache_misses
from lamina_tracing._jit import signature_cache
from lamina_tracing.extend import AxisFrame, SignatureCache, StagedProgram, extend_axis_env

AVALS = (shaped((3,), "float32"),)
PROGRAM = StagedProgram("closed", [], "tree")


@pytest.fixture
def cache():
    return SignatureCache("map", "f", len, len, {})


def lookup(cache, traced, avals=AVALS, program=PROGRAM, **options):
    def trace(*signature):
        traced.append(signature)
        return program

    return cache.get_or_trace(avals, "in", (), trace, **options)


def test_known_signature_is_not_traced(cache):
    traced = []
    assert lookup(cache, traced) is lookup(cache, traced) is PROGRAM
    assert traced == [(AVALS, "in", ())]


def test_axes_settings_and_context_are_part_of_the_signature(cache):
    traced = []
    lookup(cache, traced)
    lookup(cache, traced, surroundings="mesh")
    with enable_x64(not config.enable_x64.value):
        lookup(cache, traced)
    with extend_axis_env(AxisFrame("i", 2)):
        lookup(cache, traced)
    assert len(traced) == len(cache.programs) == 4


def test_program_with_outer_values_is_not_stored(cache):
    lookup(cache, [], program=PROGRAM._replace(outer=[1.0]))
    assert not cache.programs


def test_program_is_not_stored_if_rules_change_meanwhile(cache):
    def change():
        with config.generation.changing():
            config.generation.note_change()

    def trace(*signature):
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        return PROGRAM

    assert cache.get_or_trace(AVALS, None, (), trace) is PROGRAM and not cache.programs


def test_full_cache_evicts_oldest_half(cache, monkeypatch):
    monkeypatch.setattr(signature_cache, "_MAX_PROGRAMS", 4)
    for n in range(5):
        lookup(cache, [], (shaped((n,), "float32"),))
    assert [key[0][0].shape for key in cache.programs] == [(2,), (3,), (4,)]


def test_changed_context_is_explained(cache, caplog):
    with caplog.at_level(logging.WARNING, logger="lamina"), explain_cache_misses(True):
        cache.get_or_trace((), None, (), lambda *signature: PROGRAM, "mesh 1")
        cache.get_or_trace((), None, (), lambda *signature: PROGRAM, "mesh 2")
    assert "what the map reads from its surroundings changed from 'mesh 1' to 'mesh 2'" in caplog.records[-1].getMessage()
