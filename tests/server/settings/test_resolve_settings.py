"""Flag over environment over file over default, and what is said when a value cannot be."""

from __future__ import annotations

import pytest
from duplex_sdk.errors import DuplexError
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_server.settings import SettingsError, plugin_of, resolve_settings
from duplex_server.settings.report import setting_lines
from duplex_server.settings.stage_report import stage_lines

SCRIPTED = {"plugin": "scripted"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write_file(tmp_path):
    def write(text: str):
        path = tmp_path / "settings.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_flag_beats_environment_beats_file_beats_default(write_file):
    config = write_file("plugin: scripted\nserving: {port: 1}\n")
    file_only = resolve_settings({}, {}, config=config)
    assert file_only.settings.serving.port == 1
    assert file_only.origins["serving.port"].words == str(config)
    environment = {"DUPLEX_PORT": "2"}
    from_environment = resolve_settings({}, environment, config=config)
    assert from_environment.settings.serving.port == 2
    assert from_environment.origins["serving.port"].words == "$DUPLEX_PORT"
    from_flag = resolve_settings({"port": "3"}, environment, config=config)
    assert from_flag.settings.serving.port == 3
    assert from_flag.origins["serving.port"].words == "--port"
    assert resolve_settings(SCRIPTED, {}).settings.serving.port == 8000


def test_file_in_the_working_folder_is_read_unasked(tmp_path):
    (tmp_path / "duplex.yaml").write_text("plugin: scripted\nlog_level: debug\n")
    assert resolve_settings({}, {}).settings.log_level == "debug"


def test_limits_of_sessions_come_from_any_source_with_their_type(write_file):
    config = write_file("plugin: scripted\nduplex_session: {max_sessions: 3, idle_ttl_s: null}\n")
    environment = {"DUPLEX_LATE_UNIT_POLICY": "fail", "DUPLEX_DISCONNECT_GRACE_S": "1.5"}
    limits = resolve_settings({"max_sessions": "7"}, environment, config=config).session_limits
    assert limits.max_sessions == 7
    assert limits.idle_ttl_s is None
    assert limits.late_unit_policy == "fail"
    assert limits.disconnect_grace_s == 1.5
    assert resolve_settings(SCRIPTED | {"idle_ttl_s": "null"}, {}).session_limits.idle_ttl_s is None


def test_sessions_at_once_are_the_plugins_figure_where_nobody_says_another():
    resolved = resolve_settings(SCRIPTED, {})
    assert resolved.session_limits.max_sessions == resolved.spec.max_sessions


def test_keys_come_from_flags_environment_and_file(write_file):
    config = write_file("plugin: scripted\nserving: {api_keys: [a, b]}\n")

    def keys(flags, environment):
        settings = resolve_settings(flags, environment, config=config).settings
        return [key.get_secret_value() for key in settings.serving.api_keys]

    assert keys({}, {}) == ["a", "b"]
    assert keys({}, {"DUPLEX_API_KEY": "c"}) == ["c"]
    assert keys({}, {"DUPLEX_API_KEYS": "c, d"}) == ["c", "d"]
    assert keys({"api_key": ["e", "f"]}, {"DUPLEX_API_KEY": "c"}) == ["e", "f"]
    assert keys({"api_key": []}, {}) == ["a", "b"]


def test_plugin_options_come_from_flag_environment_file_and_pairs(write_file):
    config = write_file("plugin: local\nplugin_options: {llm_url: 'http://file'}\n")
    assert resolve_settings({}, {}, config=config).plugin_options["llm_url"] == "http://file"
    environment = {"DUPLEX_LLM_URL": "http://environment"}
    by_environment = resolve_settings({}, environment, config=config)
    assert by_environment.plugin_options["llm_url"] == "http://environment"
    by_flag = resolve_settings({"llm_url": "http://flag"}, environment, config=config)
    assert by_flag.plugin_options["llm_url"] == "http://flag"
    by_pair = resolve_settings(
        {}, environment, config=config, given_options={"llm_url": "http://p"}
    )
    assert by_pair.plugin_options["llm_url"] == "http://p"


def test_plugin_is_known_before_the_other_settings(write_file):
    config = write_file("plugin: scripted\n")
    assert plugin_of(None, {}, config=str(config)).name == "scripted"
    assert plugin_of(None, {"DUPLEX_PLUGIN": "local"}, config=str(config)).name == "local"
    assert plugin_of("local", {"DUPLEX_PLUGIN": "scripted"}).name == "local"
    assert plugin_of(None, {}).name == "local"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("serving: {port: 99999}", "serving.port"),
        ("serving: {prot: 1}", "serving.prot"),
        ("serving: {api_keys: ['']}", "serving.api_keys"),
        ("serving: {ssl_certfile: /no/such/file}", "serving.ssl_certfile"),
        ("serving: {config_timeout_s: 0}", "serving.config_timeout_s"),
        ("duplex_session: {max_sesions: 1}", "max_sesions"),
        ("duplex_session: {max_sessions: -1}", "duplex_session.max_sessions"),
        ("duplex_session: {overflow_policy: shrug}", "duplex_session.overflow_policy"),
        ("session_mode: both", "session_mode"),
        ("stages: {a: {replicas: 0}}", "stages.a.replicas"),
        ("stages: {a: {backends: [inline]}}", "stages.a.backends"),
        ("stages: {a: 3}", "stages.a"),
        ("stages: 3", "stages"),
        ("plugin_options: {no_such: 1}", "no_such"),
        ("colour: blue", "colour"),
        ("serving: 3", "serving"),
        ("{session_mode: turn, chat_backend: session}", "chat_backend"),
        ("- a list", "no settings"),
        ("serving: {port: [", "not YAML"),
    ],
)
def test_bad_file_names_the_field(write_file, text, named):
    config = write_file(text)
    with pytest.raises(SettingsError, match=named):
        resolve_settings(SCRIPTED, {}, config=config)


def test_error_says_where_the_value_came_from():
    with pytest.raises(SettingsError, match=r"serving\.port.*\$DUPLEX_PORT"):
        resolve_settings(SCRIPTED, {"DUPLEX_PORT": "many"})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plugin: scripted\nserving:\n  host: ::1\n  port: many\n", 4),
        ("plugin: scripted\nserving:\n  api_keys:\n  - good\n  - ''\n", 3),
        ("plugin: scripted\nserving:\n  api_keys:\n  - good\n  - 5\n", 5),
        ("plugin: 3\n", 1),
        ("log_level: info\nplugin: nobodys\n", 2),
        ("plugin: scripted\nworker_python: /no/such/python\n", 2),
        ("plugin: scripted\nworker_python: 7\n", 2),
        ("plugin: scripted\nplugin_options: [a]\n", 2),
        ("stages:\n  a: {replicas: 1}\n  b: {device: cpu,\n      replicas: 0}\n", 4),
        ("# colours\n\ncolour: blue\n", 3),
    ],
)
def test_error_names_the_line_of_the_file(write_file, text, line):
    config = write_file(text)
    with pytest.raises(DuplexError, match=rf"from .*settings\.yaml, line {line}\)"):
        resolve_settings({}, {}, config=config)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("plugin: scripted\nplugin: local\n", "lines 1 and 2"),
        ("stages:\n  a: {replicas: 1}\n  b: {}\n  a: {replicas: 2}\n", "lines 2 and 4"),
        ("serving: {port: 1}\nlog_level: info\nserving: {host: a}\n", "lines 1 and 3"),
        ("stages: [{a: 1,\n  a: 2}]\n", "lines 1 and 2"),
    ],
)
def test_what_is_said_twice_is_refused_since_one_of_them_would_be_lost(write_file, text, lines):
    with pytest.raises(SettingsError, match=rf"said twice \(from .*settings\.yaml, {lines}\)"):
        resolve_settings(SCRIPTED, {}, config=write_file(text))


def test_a_value_laid_over_another_by_a_merge_is_said_once(write_file):
    config = write_file("serving: &base {host: a, port: 1}\nstages: {}\n")
    assert resolve_settings(SCRIPTED, {}, config=config).settings.serving.port == 1
    merged = write_file(
        "plugin: scripted\nstages:\n  scripted: {<<: {replicas: 2, device: cpu}, replicas: 3}\n"
    )
    stages = resolve_settings({}, {}, config=merged).deployment.stages
    assert stages == {"scripted": {"replicas": 3, "device": "cpu"}}


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("serving: {prot: 1}", "serving.prot: no such setting", "did you mean 'port'?"),
        ("stages: {a: {replica: 2}}", "stages.a.replica: no such setting", "'replicas'?"),
        ("stages: {a: {colour: 2}}", "stages.a.colour: no such setting", "backend, device, "),
        ("sesion_mode: turn", "sesion_mode: no such setting", "'session_mode'?"),
        (
            "duplex_session: {max_sesions: 1}",
            "duplex_session.max_sesions: no such setting",
            "'max_sessions'?",
        ),
        (
            "duplex_session: {max_sessions: many}",
            "duplex_session.max_sessions: this is a whole number or null",
            "--print-config",
        ),
        (
            "duplex_session: {late_unit_policy: shrug}",
            "duplex_session.late_unit_policy: this is 'skip_silence' or 'drop_oldest' or 'fail'",
            "--print-config",
        ),
        ("duplex_session: {idle_ttl_s: [1]}", "duplex_session.idle_ttl_s: this is a number", ""),
        (
            "duplex_session: {close_timeout_s: -1}",
            "duplex_session.close_timeout_s must be a number above 0",
            "",
        ),
        ("serving: 8000", "serving: this is a section of names and values", ""),
        ("stages: {a: process}", "stages.a: this is a section of names and values", ""),
        ("stages: {a: {options: [1]}}", "stages.a.options: this is a section", ""),
        ("stages: {a: {workers: 'h:1'}}", "stages.a.workers: this is a list", ""),
        ("stages: {a: {workers: []}}", "stages.a.workers: this is empty", ""),
        ("stages: {a: {replicas: two}}", "stages.a.replicas: this is a whole number", ""),
        ("stages: {a: {replicas: 1.5}}", "stages.a.replicas: this is a whole number", ""),
        ("stages: {a: {replicas: 0}}", "stages.a.replicas: this is 1 or more", ""),
        ("stages: {a: {gather_ms: soon}}", "stages.a.gather_ms: this is a number", ""),
        ("stages: {a: {gather_ms: .inf}}", "stages.a.gather_ms: this is a number with an end", ""),
        ("stages: {a: {options: {when: 2020-01-01}}}", "stages.a.options.when: this is JSON", ""),
        ("stages: {1: {replicas: 2}}", "stages.1: a name is text; put it in quotes", ""),
        ("stages: {a: {options: {on: 2}}}", "stages.a.options.1: a name is text", ""),
        ("device: 3", "device: this is text", ""),
        ("stages: {a: {device: gpu7}}", "stages.a.device: this is a kind", ""),
        ("serving: {port: 99999}", "serving.port: this is 65535 at most", ""),
        ("session_mode: both", "session_mode: this is 'duplex' or 'turn'", ""),
    ],
)
def test_what_cannot_be_is_told_in_the_words_of_the_file(write_file, text, says, hint):
    with pytest.raises(SettingsError) as refused:
        resolve_settings(SCRIPTED, {}, config=write_file(text))
    assert str(refused.value).startswith(f"{says}"), str(refused.value)
    assert hint in refused.value.hint


def test_every_limit_of_sessions_can_be_told_in_words():
    for name in DuplexSessionRuntimeConfig.__struct_fields__:
        with pytest.raises(SettingsError, match=rf"duplex_session\.{name}: this is [a-z']"):
            resolve_settings(SCRIPTED | {name: {}}, {})


def test_a_value_that_cannot_be_is_not_repeated_for_it_may_be_a_key(write_file):
    text = "serving: {api_keys: top-secret}\nworker_secret: [top-secret]\n"
    with pytest.raises(SettingsError) as refused:
        resolve_settings(SCRIPTED, {}, config=write_file(text))
    assert "top-secret" not in str(refused.value)


def test_a_stage_nobody_knows_is_blamed_on_its_line_or_flag(write_file):
    config = write_file("plugin: scripted\nstages:\n  talker:\n    replicas: 2\n")
    assert "line 3" in resolve_settings({}, {}, config=config).blame("stages.talker")
    given = resolve_settings(SCRIPTED, {}, given_stages={("talker", "replicas"): 2})
    assert given.blame("stages.talker") == " (from --stage)"
    assert given.blame("serving.port") == ""


def test_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(SettingsError, match="cannot read the settings file"):
        resolve_settings(SCRIPTED, {}, config=tmp_path / "none.yaml")


def test_stages_come_from_file_and_flag_and_become_a_deployment(write_file):
    config = write_file(
        "plugin: scripted\ndevice: cuda:1\n"
        "stages: {scripted: {backend: process, replicas: 3, options: {a: 1}}}\n"
    )
    given = {("scripted", "replicas"): 2, ("scripted", "options", "b"): "x"}
    resolved = resolve_settings({}, {}, config=config, given_stages=given)
    deployment = resolved.deployment
    assert deployment.stages == {
        "scripted": {"backend": "process", "replicas": 2, "options": {"a": 1, "b": "x"}}
    }
    assert deployment.device == "cuda:1"
    assert deployment.worker_python is None
    assert resolve_settings({"device": "cpu"}, {}, config=config).deployment.device == "cpu"


def test_report_tells_how_each_stage_is_run_and_who_said_so(write_file):
    config = write_file(
        "plugin: scripted\ndevice: cuda:1\n"
        "stages: {scripted: {backend: process, options: {a: 1}}}\n"
    )
    given = {("scripted", "replicas"): 2}
    resolved = resolve_settings({}, {}, config=config, given_stages=given)
    lines = {line.path: (line.value, line.origin) for line in stage_lines(resolved)}
    assert lines["stages.scripted.backend"] == ("process", f"{config}, line 3")
    assert lines["stages.scripted.replicas"] == ("2", "--stage")
    assert lines["stages.scripted.device"] == ("cuda:1", f"{config}, line 2")
    assert lines["stages.scripted.options.a"] == ("1", f"{config}, line 3")
    assert lines["stages.scripted.gather_ms"] == ("0.0", "plugin scripted")


def test_report_tells_of_parts_and_of_mappings_given_whole_who_said_them(write_file):
    config = write_file("plugin: scripted\nstages: {scripted: {options: {a: 1, b: {c: 2}}}}\n")

    def origins(given):
        resolved = resolve_settings({}, {}, config=config, given_stages=given)
        lines = {line.path: line.origin for line in stage_lines(resolved)}
        prefix = "stages.scripted.options."
        return {
            path.removeprefix(prefix): origin
            for path, origin in lines.items()
            if path.startswith(prefix)
        }

    of_file, of_flag, of_plugin = f"{config}, line 2", "--stage", "plugin scripted"
    assert origins({}) == {"script": of_plugin, "a": of_file, "b": of_file}
    part = origins({("scripted", "options", "d", "e"): 3})
    assert part == {"script": of_plugin, "a": of_file, "b": of_file, "d": of_flag}
    whole = origins({("scripted", "options"): {"a": 5}})
    assert whole == {"script": of_plugin, "a": of_flag}


def test_a_section_that_is_a_value_is_blamed_when_something_is_put_into_it(write_file):
    config = write_file("plugin: scripted\nstages:\n  scripted:\n    options: 3\n")
    with pytest.raises(SettingsError, match=r"stages\.scripted\.options: .* line 4\)"):
        resolve_settings({}, {}, config=config, given_stages={("scripted", "options", "a"): 1})


def test_report_refuses_a_stage_that_cannot_be_run_like_that(write_file):
    config = write_file("plugin: scripted\nstages:\n  scripted: {backend: inlin}\n")
    resolved = resolve_settings({}, {}, config=config)
    with pytest.raises(SettingsError, match=r"does not run as 'inlin' \(from .*, line 3\)"):
        tuple(stage_lines(resolved))


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("duplex_session:\n  max_sessions: many\n", r"duplex_session\.max_sessions.*line 3\)"),
        ("duplex_session:\n  max_sesions: 2\n", r"duplex_session\.max_sesions.*line 3\)"),
        ("duplex_session:\n  disconnect_grace_s: -1\n", r"disconnect_grace_s.*line 3\)"),
        ("plugin_options:\n  nonsense: 2\n", r"plugin_options\.nonsense.*line 3\)"),
    ],
)
def test_what_cannot_be_is_told_with_its_line(write_file, said, says):
    config = write_file("plugin: scripted\n" + said)
    with pytest.raises(SettingsError, match=says):
        resolve_settings({}, {}, config=config)


def test_an_interpreter_that_cannot_tell_its_plugins_is_named():
    with pytest.raises(DuplexError, match=r"worker_python: /no/such/python does not run"):
        resolve_settings(SCRIPTED, {"DUPLEX_WORKER_PYTHON": "/no/such/python"})
    with pytest.raises(DuplexError, match="/bin/false cannot tell"):
        plugin_of("scripted", {}, worker_python="/bin/false")


def test_report_shows_origins_and_no_secret():
    resolved = resolve_settings(SCRIPTED | {"api_key": ["top-secret"]}, {"DUPLEX_PORT": "5"})
    lines = {line.path: line for line in setting_lines(resolved)}
    assert lines["serving.port"].value == "5"
    assert lines["serving.port"].origin == "$DUPLEX_PORT"
    assert lines["serving.api_keys"].value == "***"
    assert lines["serving.host"].origin == "default"
    assert lines["duplex_session.max_sessions"].origin == "plugin scripted"
    assert not any("top-secret" in line.value for line in lines.values())
