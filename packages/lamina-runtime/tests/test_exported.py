import lamina_runtime


def test_all_names_exist():
    for name in lamina_runtime.__all__:
        assert hasattr(lamina_runtime, name)
