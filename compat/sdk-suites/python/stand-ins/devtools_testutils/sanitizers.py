"""Nothing is recorded, so nothing has to be made unrecognisable."""


def add_remove_header_sanitizer(**_):
    pass


def add_general_regex_sanitizer(**_):
    pass


def add_oauth_response_sanitizer(**_):
    pass
