"""The page of settings says what the settings are."""
import settings_table


def test_the_page_is_what_the_settings_say():
    assert settings_table.main(["--check"]) == 0


def test_every_link_is_of_a_setting():
    import lamina
    assert set(settings_table.PAGES) <= set(lamina.config.options)
