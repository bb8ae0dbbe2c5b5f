"""Defect: `check` accepts every program."""
import lamina_ir

lamina_ir.check = lambda program: None
