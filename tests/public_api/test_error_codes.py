"""Each error class has a stable code. Programs can read the parts of its message, and the reference describes it."""
import ast
import builtins
import copy
import importlib
import inspect
import multiprocessing
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import error_examples
import lamina
import lamina.numpy as jnp
import pytest
from error_examples import EXAMPLES
from lamina.errors import LaminaError, error_details
from lamina_ir.errors import BUILTIN_CODES

ROOT = Path(__file__).parents[2]
# Exceptions that users never get, so they have no code. lamina-see catches its ChunkError.
WITHOUT_CODE = {"UnfilteredStackTrace", "ChunkError"}
COMPILED = lamina.jit(lambda x: x + 1).lower(jnp.ones(3)).compile()


def class_of(code):
    module, _, name = EXAMPLES[code].error.rpartition(".")
    return getattr(importlib.import_module(module), name)


def exceptions_in_sources():
    """Return {name: whether the class defines a code} of the public exception classes of the packages."""
    bases, codes = {}, {}
    for path in (ROOT / "packages").glob("*/src/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                codes[node.name] = codes.get(node.name, True) and any(
                    isinstance(item, ast.AnnAssign) and ast.unparse(item.target) == "code" for item in node.body)

    def is_exception(name):
        kind = getattr(builtins, name, None)
        return isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning) or any(
            is_exception(base) for base in bases.get(name, ()))
    return {name: coded for name, coded in codes.items() if is_exception(name) and not name.startswith("_")}


def test_every_exception_class_has_a_code_of_its_own():
    found = exceptions_in_sources()
    assert {"ShapeError", "CheckpointError", "AgreementError", "MissingRule"} <= set(found)
    assert {name for name, coded in found.items() if not coded} == WITHOUT_CODE
    classes = [class_of(code) for code in EXAMPLES if code < "LAM20"]
    assert set(found) - WITHOUT_CODE == {kind.__name__ for kind in classes}


@pytest.mark.parametrize("code", EXAMPLES)
def test_code_belongs_to_its_class(code):
    kind = class_of(code)
    if code >= "LAM20":
        assert BUILTIN_CODES[kind] == code
    else:
        assert issubclass(kind, LaminaError) and vars(kind)["code"] == code and "\n\nFix: " in (inspect.getdoc(kind) or "")


def test_table_has_all_codes_of_builtin_exceptions():
    assert {code for code in EXAMPLES if code >= "LAM20"} == set(BUILTIN_CODES.values())
    assert all(bool(example.program) != bool(example.reason) for example in EXAMPLES.values())


IN_THIS_PROCESS = [code for code, example in EXAMPLES.items()
                   if example.program and example.processes == 1 and "as_jax" not in example.program]


@pytest.mark.parametrize("code", IN_THIS_PROCESS)
def test_public_call_raises_it_with_its_code_in_the_last_line(code):
    error = error_examples.run(code)
    assert type(error) is class_of(code) and error.code == error_details(error).code == code
    assert "".join(traceback.format_exception(error)).endswith(f"\n[{code}] lamina.errors, docs/reference/errors\n")
    assert code not in str(error)
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is type(error) and error_details(same) == error_details(error)
        assert same.__notes__ == error.__notes__ and str(same) == str(error)


@pytest.mark.parametrize("call, code", [
    (lambda: lamina.config.update("x64", True), "LAM2007"), (lambda: lamina.config.no_setting, "LAM2007"),
    (lambda: setattr(lamina.config, "no_setting", 1), "LAM2007"),
    (lambda: lamina.config.update("enable_x64", "maybe"), "LAM2002"), (lambda: lamina.debug_nans("x").__enter__(), "LAM2002"),
    (lambda: lamina.config.enable_x64.parse("maybe", "LAMINA_X64"), "LAM2002"),
    (lambda: lamina.config.default_matmul_precision.parse("z", "LAMINA_Z"), "LAM2002"),
    (lambda: lamina.config.num_cpu_devices.parse("z", "LAMINA_Z"), "LAM2002"),
    (lambda: COMPILED(jnp.ones(3), 1), "LAM2001"), (lambda: COMPILED(jnp.ones(4)), "LAM2001"),
    (lambda: lamina.jit(COMPILED)(jnp.ones(3)), "LAM2001")])
def test_builtin_errors_of_settings_and_compiled_calls_have_codes(call, code):
    with pytest.raises((AttributeError, TypeError, ValueError)) as caught:
        call()
    assert caught.value.code == code and caught.value.__notes__ == [f"[{code}] lamina.errors, docs/reference/errors"]


def test_notes_come_before_the_code():
    error = error_examples.run("LAM1101")
    error.add_note("first")
    assert error.__notes__ == ["first", "[LAM1101] lamina.errors, docs/reference/errors"]
    error.__notes__ = ["second", *error.__notes__]
    assert error.__notes__ == ["second", "first", "[LAM1101] lamina.errors, docs/reference/errors"]
    assert pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__
    with pytest.raises(TypeError, match="note must be a string"):
        error.add_note(3)


def raise_again(code):
    raise error_examples.run(code)


@pytest.mark.slow
def test_notes_can_be_appended_and_deleted_as_those_of_builtin_exceptions():
    error = LaminaError("text")
    code, = error.__notes__
    error.__notes__.append("appended")
    error.add_note("added")
    assert error.__notes__ == [code, "appended", "added"]
    del error.__notes__
    error.add_note("new")
    assert error.__notes__ == ["new", code]


def test_code_and_notes_return_from_a_process_pool():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for code in ("LAM1101", "LAM2001"):
            with pytest.raises(class_of(code)) as caught:
                pool.apply(raise_again, (code,))
            assert caught.value.code == code and caught.value.__notes__[-1].startswith(f"[{code}]")


def test_uncaught_builtin_exceptions_show_the_code():
    program = "import lamina.numpy as jnp\njnp.ones(3)[0, 0]"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr
    assert shown.splitlines()[-1] == "[LAM2003] lamina.errors, docs/reference/errors"
    program = "import lamina\n@lamina.jit\ndef f(x):\n    raise ValueError('mine')\nf(1)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr
    assert shown.splitlines()[-1] == "ValueError: mine"


def test_error_details_of_foreign_errors():
    assert error_details(KeyError("a")).code is None and error_details(ValueError("f: no")).call == "f"
    with pytest.raises(TypeError, match="error_details: error must be an exception; got int: 3"):
        error_details(3)


def test_parts_of_messages_are_attributes():
    with pytest.raises(LaminaError) as caught:
        lamina.numpy.ones(3).astype("text")
    error = caught.value
    assert (error.call, error.argument, error.expected, error.got, error.fix) == ("astype", None, "a dtype", "'text'", None)
