"""Analysis of communication between devices in HLO text."""
import pytest
from lamina_runtime._placement.hlo_collectives import parse_collectives

LOOP = """\
%%turn (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %%s = (s32[], f32[4]{0}) parameter(0)
  %%i = s32[] get-tuple-element(%%s), index=0
  %%two = s32[] constant(2)
  %%next = s32[] add(%%i, %%two)
  %%x = f32[4]{0} get-tuple-element(%%s), index=1
  %%sum = f32[4]{0} all-reduce(%%x), replica_groups={{0,2},{1,3}}, to_apply=%%add
  ROOT %%t = (s32[], f32[4]{0}) tuple(%%next, %%sum)
}

%%test (s: (s32[], f32[4])) -> pred[] {
  %%s.1 = (s32[], f32[4]{0}) parameter(0)
  %%i.1 = s32[] get-tuple-element(%%s.1), index=0
  %%six = s32[] constant(6)
  ROOT %%less = pred[] compare(%%i.1, %%six), direction=LT
}

ENTRY %%main (x.2: f32[4]) -> f32[4] {
  %%x.2 = f32[4]{0} parameter(0)
  %%zero = s32[] constant(0)
  %%t.2 = (s32[], f32[4]{0}) tuple(%%zero, %%x.2)
  %%loop = (s32[], f32[4]{0}) while(%%t.2), condition=%%test, body=%%turn%s
  ROOT %%out = f32[4]{0} get-tuple-element(%%loop), index=1
}
"""


@pytest.mark.parametrize("after, times, looped", [
    (', metadata={op_name="f/scan"}', 3, False), (', metadata={op_name="f/while"}', 1, True), ("", 1, True),
    (', backend_config={"known_trip_count":{"n":"5"}}', 5, False)])
def test_executions_of_loop_bodies(after, times, looped):
    move, = parse_collectives(LOOP % after, {})
    assert (move.executions, move.in_loop, move.in_branch, move.groups) == (times, looped, False, ((0, 2), (1, 3)))


@pytest.mark.parametrize("instruction, kind, brought, sent", [
    ("f32[6]{0} all-reduce(%x), replica_groups={{0,1,2},{3,4,-1}}", "all-reduce", 24, 32),
    ("(f32[6]{0}, s32[]) all-reduce(%x, %i), replica_groups={}", "all-reduce", 28, 42),
    ("(f32[6]{0}, f32[24]{0}) all-gather-start(%x), replica_groups=[1,4]<=[4]", "all-gather", 24, 72),
    ("f32[2]{0} reduce-scatter(f32[6]{0} %x), replica_groups=[1,3]<=[3], dimensions={0}", "reduce-scatter", 24, 16),
    ("f32[6]{0} all-to-all(%x), replica_groups=[2,2]<=[2,2]T(1,0)", "all-to-all", 24, 12),
    ("f32[6]{0} collective-permute(%x), source_target_pairs={{0,1},{2,3}}", "collective-permute", 24, 24),
    ("f32[6]{0} collective-permute(%x), source_target_pairs={{0,0}}", "collective-permute", 24, 0),
    ("f32[6]{0} collective-broadcast(%x), replica_groups={{0,1}}", "collective-broadcast", 24, 24),
    ("f32[6]{0} all-reduce(%x), replica_groups={{0},{1}}", "all-reduce", 24, 0),
    ("bf16[3]{0} all-reduce(%h), replica_groups={{0,1}}", "all-reduce", 6, 6),
    ("f32[6]{0} all-reduce(%x), replica_groups=mesh['a'=4,'b'=2] {'a'}", "all-reduce", 24, 36),
    ("f32[6]{0} all-reduce(%x), replica_groups=of another form", "all-reduce", 24, None)])
def test_bytes_sent_by_collectives(instruction, kind, brought, sent):
    move, = parse_collectives(f"""\
ENTRY %main (x: f32[6]) -> f32[6] {{
  %x = f32[6]{{0}} parameter(0)
  %i = s32[] constant(1)
  %h = bf16[3]{{0}} constant({{1, 2, 3}})
  ROOT %out = {instruction}
}}""", {})
    assert (move.kind, move.operand_bytes, move.bytes_sent(4)) == (kind, brought, sent)
    assert all(n >= 0 for group in move.groups or () for n in group)


@pytest.mark.parametrize("text, groups", [
    ("[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
    ("mesh['a'=4,'b'=2] {'b'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
    ("mesh['a'=2,'b'=1,'c'=4] {'a','c'}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
    ("mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
    ("mesh['a'=2,'b'=4], device_ids=([2,2,2]T(0,2,1)) {'b':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
    ("mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'a'}", ((3, 2), (1, 0)))])
def test_replica_groups_are_parsed(text, groups):
    move, = parse_collectives(f"""\
ENTRY %main (x: f32[6]) -> f32[6] {{
  %x = f32[6]{{0}} parameter(0)
  ROOT %out = f32[6]{{0}} all-reduce(%x), channel_id=1, replica_groups={text}, to_apply=%add
}}""", {})
    assert move.groups == groups


def test_executions_of_called_functions_and_branches():
    move, = parse_collectives("""\
%f (a: f32[2]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  ROOT %sum = f32[2]{0} all-reduce(%a), replica_groups={{0,1}}, to_apply=%add
}

%g (b: f32[2]) -> f32[2] {
  %b = f32[2]{0} parameter(0)
  %once = f32[2]{0} call(%b), to_apply=%f
  ROOT %twice = f32[2]{0} call(%once), to_apply=%f
}

%unused (c: f32[2]) -> f32[2] {
  %c = f32[2]{0} parameter(0)
  ROOT %all = f32[2]{0} all-gather(%c), replica_groups={{0,1}}
}

ENTRY %main (x: f32[2], i: s32[]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %i = s32[] parameter(1)
  %first = f32[2]{0} call(%x), to_apply=%g
  ROOT %out = f32[2]{0} conditional(%i, %first, %first), branch_computations={%f, %g}
}""", {})
    assert (move.executions, move.in_branch) == (5, True)
