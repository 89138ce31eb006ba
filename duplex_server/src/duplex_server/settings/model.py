"""The settings of a server: the edge where pydantic checks what people wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    field_validator,
    model_validator,
)

__all__ = ["LogLevel", "ServerSettings", "ServingSettings", "StageSettings"]

LogLevel = Literal["debug", "info", "warning", "error"]
_DEVICE = r"^[a-z]+(:[0-9]+)?$"
_HTTP_LIMIT = 16 * 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ServingSettings(_Section):
    """How the server is reached."""

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(
        default=8000, ge=0, le=65_535, description="port to listen on; 0 takes a free one"
    )
    api_keys: tuple[SecretStr, ...] = Field(
        default=(), description="key a client must present; may be given several times"
    )
    authenticator: str | None = Field(
        default=None,
        min_length=1,
        description="installed package that admits clients; without it the server does not start",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        description="foreign web origin whose pages may connect; may be given several times",
    )
    ssl_certfile: Path | None = Field(
        default=None, description="certificate chain, to serve wss:// itself"
    )
    ssl_keyfile: Path | None = Field(default=None, description="private key of the certificate")
    max_frame_bytes: int = Field(
        default=15 * 1024 * 1024, gt=0, lt=_HTTP_LIMIT, description="largest client frame in bytes"
    )
    config_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="seconds to wait for a first frame that configures a session",
    )

    @field_validator("api_keys")
    @classmethod
    def _keys_hold_something(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(not key.get_secret_value().strip() for key in keys):
            raise ValueError("an empty key would let everybody in")
        return keys

    @field_validator("ssl_certfile", "ssl_keyfile")
    @classmethod
    def _file_is_there(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError(f"there is no file {path}")
        return path

    @model_validator(mode="after")
    def _key_needs_certificate(self) -> ServingSettings:
        if self.ssl_keyfile is not None and self.ssl_certfile is None:
            raise ValueError("ssl_keyfile is given without ssl_certfile")
        return self


class StageSettings(_Section):
    """What a deployment changes about one stage; what is absent stays as the plugin has it."""

    backend: str | None = None
    device: str | None = Field(default=None, pattern=_DEVICE)
    replicas: int | None = Field(default=None, ge=1)
    workers: tuple[str, ...] | None = Field(default=None, min_length=1)
    worker_python: str | None = Field(default=None, min_length=1)
    memory_bytes: int | None = Field(default=None, ge=0)
    period_ms: int | None = Field(default=None, ge=1)
    max_batch: int | None = Field(default=None, ge=1)
    gather_ms: float | None = Field(default=None, ge=0)
    options: dict[str, JsonValue] | None = None
    sampling: dict[str, JsonValue] | None = None
    vllm: dict[str, JsonValue] | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """What was said, by name."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


class ServerSettings(_Section):
    """Everything ``duplex serve`` goes by; what is absent is the plugin's affair."""

    plugin: str | None = Field(default=None, description="plugin to serve")
    plugin_options: dict[str, Any] = Field(default_factory=dict)
    session_mode: Literal["duplex", "turn"] = Field(
        default="duplex", description="sessions that listen while they speak, or turns"
    )
    duplex_session: dict[str, Any] = Field(default_factory=dict)
    chat_backend: Literal["engine", "session"] | None = Field(
        default=None, description="what answers /v1/chat/completions"
    )
    stages: dict[str, StageSettings] = Field(default_factory=dict)
    device: str | None = Field(
        default=None,
        pattern=_DEVICE,
        description="where models run, such as cpu or cuda:0; default CUDA where it is, else cpu",
    )
    serving: ServingSettings = Field(default_factory=ServingSettings)
    worker_python: Path | None = Field(
        default=None, description="interpreter of the environment that holds the model's runtime"
    )
    worker_secret: SecretStr | None = Field(
        default=None, description="what workers on other machines were started with"
    )
    log_level: LogLevel = Field(default="info", description="how much is logged")

    @field_validator("worker_python")
    @classmethod
    def _interpreter_keeps_its_link(cls, path: Path | None) -> Path | None:
        # Where its link lies tells an interpreter which environment it belongs to.
        return None if path is None else path.absolute()
