"""Former public names work for one minor version and warn."""
import importlib
import inspect

import pytest

PACKAGES = ["lamina_ir", "lamina_tracing", "lamina_autodiff", "lamina_batching", "lamina_parallel", "lamina_lowering",
            "lamina_runtime", "lamina_numpy"]
NAMES = [(package, name) for package in PACKAGES for name in importlib.import_module(f"{package}._deprecated").__all__]


@pytest.mark.parametrize("package", PACKAGES)
def test_former_names_are_attributes_of_the_extension_api(package):
    # The former names of lamina_runtime are those of the package.
    module = importlib.import_module(package if package == "lamina_runtime" else f"{package}.extend")
    former = importlib.import_module(f"{package}._deprecated")
    for name in former.__all__:
        assert getattr(module, name) is getattr(former, name)
        assert name not in module.__all__


@pytest.mark.parametrize("package, name", NAMES, ids=map(".".join, NAMES))
def test_former_names_name_their_replacement(package, name):
    value = getattr(importlib.import_module(f"{package}._deprecated"), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__deprecated__.startswith("use ")


def test_deprecated_function_warns_and_calls_the_new_one():
    from lamina_ir.extend import const_operands, held

    with pytest.warns(DeprecationWarning, match="use const_operands"):
        assert held("n") == const_operands("n")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'lamina_ir.extend' has no attribute 'nothing'"):
        importlib.import_module("lamina_ir.extend").nothing


@pytest.mark.parametrize("former, new", [("lamina_tracing.slots", "lamina_tracing._jit.hooks"),
                                         ("lamina_ir.seams", "lamina_ir.interfaces"),
                                         ("lamina_batching.stock", "lamina_batching._default"),
                                         ("lamina_tracing.stage", "lamina_tracing.extend")])
def test_former_module_path_warns_and_imports_the_new_one(former, new):
    with pytest.warns(DeprecationWarning, match=f"{former} is deprecated; import {new}"):
        module = importlib.import_module(former)
    for name in importlib.import_module(new).__all__:
        assert getattr(module, name) is getattr(importlib.import_module(new), name)


def test_former_folder_of_conformance_tests_warns_and_imports_the_new_one():
    with pytest.warns(DeprecationWarning, match="is deprecated; import lamina_ir.conformance"):
        trials = importlib.import_module("lamina_ir.contract.trials")
    assert trials.ContractTrials is importlib.import_module("lamina_ir.conformance.trials").ContractTrials


def _shape():
    return importlib.import_module("lamina_ir").shaped((2,), "float32")


@pytest.mark.parametrize("make, former, new", [
    (_shape, "over", "varying_axes"),
    (lambda: importlib.import_module("lamina_ir.prims").add_p, "flow", "region_signature"),
    (lambda: importlib.import_module("lamina_ir").AxisEnv([("i", 2)]), "spare", "idle_participants"),
    (lambda: importlib.import_module("lamina_ir").Cost(flops=1), "holes", "uncounted"),
    (lambda: importlib.import_module("lamina_ir").RuleTable("rules", "folder"), "holes", "missing_rules")])
def test_former_attribute_warns_and_reads_the_new_one(make, former, new):
    value = make()
    with pytest.warns(DeprecationWarning, match=f"{former} is now called {new}"):
        assert getattr(value, former) == getattr(value, new)


def test_former_method_warns_and_calls_the_new_one():
    with pytest.warns(DeprecationWarning, match="ShapedArray.short is now called str_short"):
        assert _shape().short() == _shape().str_short()


def test_former_parameter_warns_and_sets_the_new_one():
    ir = importlib.import_module("lamina_ir")
    program = ir.parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    with pytest.warns(DeprecationWarning, match="program_cost: the parameter turns is now called iterations"):
        assert ir.program_cost(program, turns=3) == ir.program_cost(program, iterations=3)
