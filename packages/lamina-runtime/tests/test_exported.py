import lamina_runtime


def test_all_names_exist():
    for name in lamina_runtime.__all__:
        assert hasattr(lamina_runtime, name)


def test_readme_example_runs():
    import pathlib
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    exec(text.split("```python")[1].split("```")[0], {})
