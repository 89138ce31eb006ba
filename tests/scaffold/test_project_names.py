from __future__ import annotations

import pytest
from duplex_sdk.plugin import PluginSpec
from duplex_sdk.scaffold import PluginNameError, ProjectName

REFUSED = {
    "": "it is empty",
    "../x": "it is a path",
    "/tmp/x": "it is a path",
    "a\\b": "it is a path",
    "..": "it is a path",
    "x" * 200: "it has 200 characters, the longest may have 40",
    "Foo Bar": "lower case letters a-z, digits and hyphens only",
    "Foo": "lower case letters a-z, digits and hyphens only",
    "foo_bar": "lower case letters a-z, digits and hyphens only",
    "é": "lower case letters a-z, digits and hyphens only",
    "\uff46oo": "lower case letters a-z, digits and hyphens only",
    "foo\n": "lower case letters a-z, digits and hyphens only",
    "foo.bar": "lower case letters a-z, digits and hyphens only",
    "{{ name }}": "lower case letters a-z, digits and hyphens only",
    "1st": "it must begin with a letter",
    "-foo": "it must begin with a letter",
    "foo-": "a hyphen stands alone",
    "foo--bar": "a hyphen stands alone",
    "duplex": "names that begin with 'duplex' belong to this project",
    "duplex-sdk": "names that begin with 'duplex' belong to this project",
    "class": "it is a word of the Python language",
    "json": "it is a module of Python's standard library",
}


@pytest.mark.parametrize(("name", "rule"), REFUSED.items(), ids=[name[:20] for name in REFUSED])
def test_a_bad_name_is_refused_with_the_rule_it_breaks(name: str, rule: str) -> None:
    with pytest.raises(PluginNameError) as refusal:
        ProjectName(name)
    message = str(refusal.value)
    assert rule in message
    assert "\n" not in message
    assert len(message) < 150


@pytest.mark.parametrize(
    ("name", "instead"),
    [("Foo Bar", "foo-bar"), ("foo_bar", "foo-bar"), ("1st", "st"), ("../x", "x"), ("foo-", "foo")],
)
def test_the_hint_is_a_name_close_to_it_that_is_taken(name: str, instead: str) -> None:
    with pytest.raises(PluginNameError) as refusal:
        ProjectName(name)
    assert refusal.value.hint == f"duplex new-plugin {instead}"
    assert ProjectName(instead).plugin == instead


@pytest.mark.parametrize("name", ["", "é", "class", "json", "duplex-sdk", "x" * 200])
def test_where_no_name_is_close_the_hint_is_an_example(name: str) -> None:
    with pytest.raises(PluginNameError) as refusal:
        ProjectName(name)
    assert refusal.value.hint == "choose a name such as acme-voice"


@pytest.mark.parametrize("name", ["a", "foo-bar", "acme-voice", "x2", "duplexer", "a" * 40])
def test_a_good_name_can_be_a_package_and_a_plugin(name: str) -> None:
    project = ProjectName(name)
    assert project.package.isidentifier()
    assert project.distribution == f"duplex-plugin-{name}"
    PluginSpec(name=name, api="1.0", factory=f"{project.package}.model:Echo")


def test_hyphens_become_underscores_in_the_package() -> None:
    assert ProjectName("foo-bar-2").package == "duplex_plugin_foo_bar_2"
