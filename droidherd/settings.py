"""What an operator may set: read once per process, frozen.

Order: flags (given by the command line to `load`), then the environment (`DROIDHERD_API__PORT=8801`), then
`droidherd.toml` of this folder or the nearest one above, then the defaults below. Only composition roots read it;
everyone else gets values passed in.
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)
from typing_extensions import override

from droidherd.contracts.base import Id
from droidherd.contracts.engine import PoolSettings
from droidherd.contracts.plan import PolicyChange
from droidherd.contracts.validation import explain_all
from droidherd.controllers import command
from droidherd.controllers.model import VendorSettings
from droidherd.controllers.registry import BUILT_IN, VENDORS
from droidherd.domain import ids
from droidherd.domain.references import AllowedReferences
from droidherd.domain.task.reaction import backoff_problem
from droidherd.files.regular import TEXT_BYTES_MAX, read_regular
from droidherd.processes import children
from droidherd.web.allow import AllowList

Name = Id
Capacity = Annotated[int, Field(ge=0, le=10_000)]
INSTANCE_FOLDER = ".droidherd"
"""What a data directory is called unless somebody says otherwise."""
CONFIG_FILE = "droidherd.toml"
PLACES = (
    ("flows", "paths"),
    ("artifacts", "directory"),
    ("credentials", "directory"),
    ("encryption", "keys_file"),
    ("api", "key_file"),
    ("api", "keys_file"),
    ("web", "ca_file"),
)
"""Settings that name files and folders."""
KEYS_FILE = "encryption.keys"
"""Where `droidherd up --encrypt` keeps a key, in the data directory."""


class Group(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Temporal(Group):
    """The Temporal server."""

    address: str = Field(default="127.0.0.1:7243", description="host:port of Temporal; port 0: any free one")
    namespace: str = Field(default="droidherd", description="where its workflows live")
    embedded: bool = Field(default=True, description="start our own server, tuned, on a database file")
    profile: str = Field(
        default="",
        description="profile of Temporal's own configuration with TLS and API key of a server that is not embedded; "
        "empty: the default one",
    )
    ui: bool = Field(
        default=False,
        description="start the embedded server's Web UI, for pages of this machine alone; it asks nobody for a key",
    )
    ui_port: int = Field(default=8243, description="the Temporal Web UI of the embedded server; 0: any free one")
    metrics_port: int = Field(default=0, description="Prometheus port of the embedded server; 0: any free one")
    program_digest: str = Field(
        default="",
        pattern=r"^([0-9a-fA-F]{64})?$",
        description="SHA-256 of the embedded server's program, if it is not the one that droidherd installs",
    )
    retention_days: int = Field(default=35, ge=1, description="how long ended tasks can be looked at")


class Api(Group):
    """The HTTP API."""

    host: str = Field(default="127.0.0.1", description="address to listen on; anything but loopback needs a key")
    port: int = Field(default=8800, description="0: any free one")
    key: str = Field(default="", repr=False, description="API key; without one only loopback is served")
    key_file: str = Field(default="", description="a file that holds the API key")
    keys: dict[str, str] = Field(
        default_factory=dict, repr=False, description="more keys, by name; who sends one is that name in the audit"
    )
    keys_file: str = Field(default="", description="a file with one `name key` per line")
    roles: dict[str, Literal["viewer", "operator", "admin"]] = Field(
        default_factory=dict,
        description="what a key may do, by its name: viewer, operator, or admin (without an entry)",
    )
    max_body_bytes: int = Field(default=1_000_000, description="larger requests are refused")
    admission_s: float = Field(
        default=5.0, gt=0, description="a submission waits this long for the dispatcher's answer"
    )
    answer_s: float = Field(default=2.5, gt=0, description="any other request waits this long for a worker")
    connections: int = Field(
        default=512, ge=16, le=50_000, description="open connections; beyond, the idlest is closed"
    )
    header_s: float = Field(default=10.0, gt=0, description="a client has this long to send the headers of a request")
    body_s: float = Field(default=30.0, gt=0, description="then this long to send its body")
    unread_s: float = Field(
        default=60.0, gt=0, description="a client that reads nothing of its answer for so long is cut"
    )
    waits_per_key: int = Field(
        default=100, ge=1, le=10_000, description="event streams and `?wait=` that a key may have open at once"
    )


class Host(Group):
    """This machine."""

    id: str = Field(default="local", pattern=ids.PLACE, description="its name; unique in the region")
    pool: str = Field(default="default", pattern=ids.PLACE, description="of its emulators")
    region: str = Field(default="default", pattern=ids.PLACE, description="of its pool")


class AdbSettings(Group):
    """The private adb server of this host."""

    port: int = Field(default=5137, description="of the private adb server; 0: any free one")
    program: str = Field(default="", description="path of adb; empty: the one inside the adbutils wheel")
    connects_at_once: int = Field(default=32, ge=1, le=64, description="simultaneous connections to the adb server")


class CommandSettings(Group):
    """Commands that start and stop an emulator. Lists of arguments: there is no shell."""

    start: tuple[str, ...]
    stop: tuple[str, ...]
    restart: tuple[str, ...] = ()
    status: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _make_sense(self) -> Self:
        for name in ("start", "stop", "restart", "status"):
            line: tuple[str, ...] = getattr(self, name)
            if (line or name in ("start", "stop")) and (problem := command.problem(line)):
                raise ValueError(f"{name} {problem}")
        return self


class _AnyControllerSettings(VendorSettings):
    """What is set for controllers of every kind."""

    commands: dict[Name, CommandSettings] = Field(
        default_factory=dict,
        max_length=100,
        description="custom controllers: `start`, `stop`, `restart`, `status` by name",
    )
    call_s: float = Field(default=60.0, gt=0, le=3600, description="how long such a program may take")
    boot_s: float = Field(default=180.0, gt=0, le=3600, description="how long an emulator may take to boot")
    boots_at_once: int = Field(default=1, ge=1, le=64, description="emulators of this host that boot at the same time")
    environment: tuple[str, ...] = Field(
        default=(),
        max_length=100,
        description="variables that such a program gets beside those of the system, the Android SDK and graphics",
    )

    @model_validator(mode="after")
    def _have_unique_names(self) -> Self:
        for name in ("none", *BUILT_IN):
            if name in self.commands:
                raise ValueError(f"commands.{name}: that is the name of a built-in controller")
        return self


_VENDOR_SETTINGS = tuple(entry.settings for entry in reversed(VENDORS))


class ControllerSettings(_AnyControllerSettings, *_VENDOR_SETTINGS):  # pyright: ignore[reportUntypedBaseClass]
    """Who starts and stops emulators: the keys of each kind of controller, and those of all."""


class RecoverySettings(Group):
    """How a host recovers an emulator that does not answer."""

    reconnect_s: float = Field(default=15.0, ge=0, description="a silent emulator is only reconnected to for so long")
    restarts: int = Field(default=3, ge=0, le=100, description="then it is restarted so often, if it has a controller")
    backoff_s: float = Field(default=10.0, gt=0, description="the pause before a second restart; it doubles")
    backoff_max_s: float = Field(default=300.0, gt=0, description="up to this")
    forgive_s: float = Field(
        default=1_800.0, gt=0, description="restarts do not count once it has been up for so long since"
    )


class CredentialSettings(Group):
    """Where a worker may look for what references of accounts point to."""

    env_prefix: str = Field(
        default="", description="`env:` reads only variables that begin like this; empty: all but `DROIDHERD_…`"
    )
    directory: str = Field(default="", description="`file:` reads only below this folder; empty: no files")


class EncryptionSettings(Group):
    """Keys for what droidherd keeps in Temporal."""

    keys_file: str = Field(
        default="",
        description="a file with an id and a key per line, of mode 0600: the first encrypts, all decrypt; empty: "
        "`encryption.keys` in the data directory, if it is there",
    )
    keys: str = Field(default="", repr=False, description="the same in a variable, with commas between")
    write: bool = Field(default=True, description="False: nothing new is encrypted; what is encrypted can be read")
    origins: tuple[str, ...] = Field(
        default=(),
        description="of Temporal Web UIs elsewhere that may ask this API to decrypt: `https://temporal.example.com`",
    )

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            if re.fullmatch(r"https?://[a-z0-9.-]+(:\d{1,5})?", text) is None:
                raise ValueError("must be origins: http or https, a host in small letters, a port if need be")
        return texts


class Flows(Group):
    """Where flows are found, beside the built-in gallery."""

    paths: tuple[str, ...] = Field(default=("flows",), description="folders with custom flows")


class Queue(Group):
    """The pool's queue."""

    limit: int = Field(default=10_000, ge=1, le=10_000, description="tasks that may wait; more are refused")
    account_capacity: int = Field(default=100, ge=0, description="how many tasks of lane `account` run at once")
    anonymous_capacity: int = Field(default=100, ge=0, description="how many tasks of lane `anonymous` run at once")
    capacities: dict[Name, Capacity] = Field(
        default_factory=dict, max_length=100, description="the same for custom lanes, by name"
    )
    by_priority: tuple[str, ...] = Field(
        default=(), description="lanes in which the smaller priority goes first; `*`: all of them"
    )
    ageing: int = Field(
        default=0, ge=0, le=1_000_000, description="there: how many may overtake a task per step of priority; 0: all"
    )
    mutex_hold_s: float = Field(
        default=7_200.0, ge=0, description="a mutex held for longer is fenced, then broken; 0: never"
    )
    idle_stop_s: float = Field(
        default=0.0, ge=0, description="an emulator idle for so long is switched off, if it has a controller; 0: never"
    )
    idle_keep: int = Field(default=0, ge=0, le=10_000, description="but not the last so many of the pool")
    startup_lead_s: float = Field(
        default=60.0, ge=0, le=3600, description="then: emulators are started so long before a task's `not_before`"
    )
    continue_after: int = Field(
        default=0, ge=0, description="messages after which a dispatcher continues as new; 0: when Temporal suggests it"
    )

    @property
    def lead_s(self) -> float:
        """How long before their time tasks say that they will need an emulator; 0: none is ever switched off."""
        return self.startup_lead_s if self.idle_stop_s else 0.0


class Timing(Group):
    """Times. Tests shorten them; farms with slow hosts lengthen them."""

    beat_every_s: float = Field(default=1.0, gt=0, description="a running stage confirms itself this often")
    heartbeat_timeout_s: float = Field(
        default=15.0, gt=0, description="silence after which Temporal replaces an attempt"
    )
    lease_ttl_s: float = Field(default=8.0, gt=0, description="a guard's deadline after the last confirmed heartbeat")
    probe_every_s: float = Field(default=2.0, gt=0, description="each emulator is probed end to end this often")
    probe_timeout_s: float = Field(default=2.0, gt=0, description="a probe without an answer failed")
    down_after_s: float = Field(default=12.0, gt=0, description="unanswered probes make an emulator suspect, then down")
    presence_timeout_s: float = Field(default=10.0, gt=0, description="a host this silent: emulators suspect")
    presence_grace_s: float = Field(default=5.0, gt=0, description="then a restarted presence must start within this")
    progress_s: float = Field(default=120.0, gt=0, description="no step done, no frame changed: the stage is stuck")
    cleanup_s: float = Field(default=30.0, gt=0, description="how long the cleanup of a flow may take")
    lease_margin_s: float = Field(default=30.0, gt=0, description="a lease outlives attempt and cleanup by this")
    home_wait_s: float = Field(
        default=300.0, ge=0, description="so long a task waits for the emulator on which its stages completed"
    )
    sticky_s: float = Field(default=2.0, gt=0, description="how long Temporal waits for a dead worker's cache")
    workflow_task_s: float = Field(default=2.0, gt=0, description="how long Temporal waits for a workflow task")
    repeat_min_s: float = Field(default=300.0, gt=0, description="a waiting task repeats its request after this")
    rebuild_s: float = Field(
        default=600.0, gt=0, le=86_400, description="a dispatcher without memory waits this long for answers"
    )
    drain_s: float = Field(default=60.0, gt=0, description="how long running stages may take when a worker stops")

    @model_validator(mode="after")
    def _keep_their_order(self) -> Self:
        """A guard must expire before Temporal replaces its attempt, and must outlive a beat."""
        if not self.beat_every_s < self.lease_ttl_s < self.heartbeat_timeout_s:
            raise ValueError("must be true: beat_every_s < lease_ttl_s < heartbeat_timeout_s")
        return self


class ArtifactSettings(Group):
    """The artifact store."""

    directory: str = Field(default="", description="empty: `artifacts` in the data directory")
    recordings: Literal["never", "failed", "always"] = Field(
        default="failed", description="stages that leave a recording for `droidherd flow replay`: never, failed, always"
    )


class RetentionSettings(Group):
    """How long what has ended is kept."""

    completed_days: float = Field(
        default=7.0, ge=0, le=3650, description="completed and cancelled tasks are kept so long"
    )
    failed_days: float = Field(default=30.0, ge=0, le=3650, description="failed tasks are kept so long")
    rejected_days: float = Field(default=1.0, ge=0, le=3650, description="rejected tasks are kept so long")
    orphan_days: float = Field(
        default=1.0, ge=0, le=3650, description="artifacts of tasks nobody knows are kept so long"
    )
    artifacts_max_bytes: int = Field(
        default=20_000_000_000, ge=0, description="beyond this the oldest artifacts go, their tasks stay; 0: no limit"
    )
    at: str = Field(default="02:00", pattern=ids.TIME_OF_DAY, description="when cleanups run, every day")
    time_zone: str = Field(
        default="UTC", pattern=r"^[A-Za-z0-9_+/-]{1,64}$", description="of that time: `Europe/Berlin`"
    )


class Limits(Group):
    """What a process may use of its machine."""

    disk_free_bytes: int = Field(
        default=1_000_000_000,
        ge=0,
        description="with less disk space than this a host pauses the lanes of its pool; 0: never",
    )
    disk_margin: float = Field(
        default=0.1, ge=0, le=10, description="so much more must be free before they are resumed"
    )
    disk_reserve_bytes: int = Field(
        default=250_000_000,
        ge=0,
        description="artifacts that would leave less are refused: Temporal needs disk space as well",
    )
    disk_check_s: float = Field(default=5.0, gt=0, description="how often a worker looks at its disks")
    worker_rss_bytes: int = Field(
        default=2_000_000_000, ge=0, description="a worker with more memory drains and restarts; 0: no limit"
    )
    adb_server_bytes: int = Field(
        default=2_000_000_000,
        ge=0,
        description="with more memory the adb server ends, and is started again; 0: no limit",
    )
    writes_at_once: int = Field(default=4, ge=1, le=1024, description="artifacts a process writes at once")
    write_wait_s: float = Field(default=10.0, gt=0, description="how long a write waits for its turn")
    replay_failures: int = Field(
        default=5, ge=0, description="failures in a row after which a workflow that cannot go on is replaced; 0: never"
    )

    @model_validator(mode="after")
    def _pause_before_refusing(self) -> Self:
        """Lanes are paused first; only what runs on may use the rest, down to the reserve."""
        if self.disk_free_bytes and self.disk_reserve_bytes > self.disk_free_bytes:
            raise ValueError("must be true: disk_reserve_bytes <= disk_free_bytes")
        return self


class WebSettings(Group):
    """Requests that droidherd itself sends."""

    allow: tuple[str, ...] = Field(default=(), description="origins it may ask: `https://*.example.com`; none: nobody")
    connections: int = Field(default=16, ge=1, le=1024, description="of a process, all together")
    connect_s: float = Field(default=3.0, gt=0, description="how long a connection may take")
    read_s: float = Field(default=8.0, gt=0, description="how long a server may be silent")
    wait_s: float = Field(default=3.0, gt=0, description="how long a request waits for a connection of the pool")
    redirects: int = Field(default=5, ge=0, le=20, description="redirects of one request, none of them out of `allow`")
    ca_file: str = Field(default="", description="certificates to trust beside the well-known ones")

    @field_validator("allow")
    @classmethod
    def _are_origins(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        AllowList.of(texts)
        return texts


class Telemetry(Group):
    """Traces, metrics, logs."""

    traces: str = Field(default="none", pattern="^(none|console|otlp)$", description="none, console or otlp")
    otlp_endpoint: str = Field(default="http://127.0.0.1:4318/v1/traces", description="where otlp sends spans")
    worker_metrics_port: int = Field(default=0, description="Prometheus port of the worker; 0: none")
    worker_metrics_host: str = Field(default="127.0.0.1", description="address that port is served at")
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="DEBUG to ERROR")


class PolicySettings(PolicyChange):
    """Changes to the policy of a flow, for all tasks of its type."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _make_sense(self) -> Self:
        """Check what can be checked without the flow. The whole policy is checked when the process starts."""
        if problem := backoff_problem(self.backoff or "", self.backoff_s or 0.0):
            raise ValueError(f"backoff_s: {problem}")
        return self


class _Environment(EnvSettingsSource):
    """Variables; lists and tables are JSON there, and what is not is refused by name."""

    @override
    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError as error:
            names = (name.upper() for name, known in self.env_vars.items() if known == value)
            name = next((name for name in names if name.endswith(field_name.upper())), field_name)
            raise ValueError(
                f'{name} is a list or a table, and is written as JSON: ["a", "b"] or {{"name": "value"}}, not {value!r}'
            ) from error


class _File(TomlConfigSettingsSource):
    """The file with settings."""

    @override
    def _read_file(self, file_path: Path | Traversable) -> dict[str, Any]:
        try:
            return tomllib.loads(read_regular(Path(str(file_path)), TEXT_BYTES_MAX).decode())
        except OSError as error:
            raise ValueError(f"{file_path} cannot be read: {error.strerror}") from error


class Settings(BaseSettings):
    """Everything, as one frozen value."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix="DROIDHERD_", env_nested_delimiter="__", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    data: Path = Field(
        default=Path(INSTANCE_FOLDER),
        description="the data directory; by default the nearest `.droidherd` of this folder and those above",
    )
    virtual: int = Field(
        default=0,
        ge=0,
        le=300,
        description="how many virtual emulators to run; by default as many as at the last `up` of the data directory",
    )
    temporal: Temporal = Temporal()
    api: Api = Api()
    host: Host = Host()
    adb: AdbSettings = AdbSettings()
    controllers: ControllerSettings = ControllerSettings()
    recovery: RecoverySettings = RecoverySettings()
    flows: Flows = Flows()
    queue: Queue = Queue()
    timing: Timing = Timing()
    artifacts: ArtifactSettings = ArtifactSettings()
    credentials: CredentialSettings = CredentialSettings()
    encryption: EncryptionSettings = EncryptionSettings()
    retention: RetentionSettings = RetentionSettings()
    limits: Limits = Limits()
    web: WebSettings = WebSettings()
    telemetry: Telemetry = Telemetry()
    policies: dict[Name, PolicySettings] = Field(
        default_factory=dict,
        description="per task type: `time_limit_s`, `retries`, `retry_on`, `backoff`, `backoff_s`",
    )

    @model_validator(mode="after")
    def _be_heard_while_asking(self) -> Self:
        """A stage that waits for a server must not be taken for dead."""
        web = self.web
        if web.allow and web.wait_s + web.connect_s + web.read_s >= self.timing.heartbeat_timeout_s:
            raise ValueError("must be true: web.wait_s + web.connect_s + web.read_s < timing.heartbeat_timeout_s")
        return self

    @model_validator(mode="after")
    def _notice_who_died(self) -> Self:
        """The time before an emulator is known to be down must not count as time in which it was up."""
        if self.recovery.forgive_s < 2 * self.timing.down_after_s:
            raise ValueError(
                f"must be true: 2 * timing.down_after_s <= recovery.forgive_s; an emulator that died counts as up for "
                f"{self.timing.down_after_s:g} s, and would be restarted for ever: set at least "
                f"{2 * self.timing.down_after_s:g}"
            )
        return self

    @model_validator(mode="after")
    def _keep_what_is_kept(self) -> Self:
        """Temporal must not delete a task before its retention is over."""
        kept = self.retention
        longest = max(kept.completed_days, kept.failed_days, kept.rejected_days)
        if longest >= self.temporal.retention_days:
            raise ValueError(
                f"must be true: retention.completed_days, .failed_days, .rejected_days < temporal.retention_days; "
                f"tasks are kept for {longest:g} days, and Temporal deletes them after {self.temporal.retention_days}"
            )
        return self

    @field_validator("data", mode="before")
    @classmethod
    def _names_a_folder(cls, value: object) -> object:
        if isinstance(value, str) and not value.strip():
            raise ValueError("must not be empty: it would be the current folder")
        return value

    @override
    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, file, in this order."""
        file = config_file(os.environ)
        return (init_settings, _Environment(settings_cls), _File(settings_cls, toml_file=file))

    @property
    def pool_settings(self) -> PoolSettings:
        """What this process hands to its pool's dispatcher."""
        queue, timing = self.queue, self.timing
        default = {"account": queue.account_capacity, "anonymous": queue.anonymous_capacity}
        return PoolSettings(
            limit=queue.limit,
            capacities={**default, **queue.capacities},
            by_priority=queue.by_priority,
            ageing=queue.ageing,
            mutex_hold_s=queue.mutex_hold_s,
            idle_stop_s=queue.idle_stop_s,
            idle_keep=queue.idle_keep,
            continue_after=queue.continue_after,
            repeat_min_s=timing.repeat_min_s,
            rebuild_s=timing.rebuild_s,
            fence_s=timing.heartbeat_timeout_s,
        )

    @property
    def tool_environment(self) -> dict[str, str]:
        """What programs of controllers may know of this process's environment."""
        return children.tool_environment(os.environ, self.controllers.environment)

    @property
    def allowed_references(self) -> AllowedReferences:
        """Which references to credentials may be followed."""
        return AllowedReferences(self.credentials.env_prefix, self.credentials.directory)

    @property
    def encryption_file(self) -> Path | None:
        """The file with encryption keys. None: there is none."""
        if self.encryption.keys_file:
            return Path(self.encryption.keys_file)
        own = self.data / KEYS_FILE
        return own if own.exists() else None

    @property
    def artifact_directory(self) -> Path:
        return Path(self.artifacts.directory) if self.artifacts.directory else self.data / "artifacts"

    @property
    def places(self) -> dict[str, Path]:
        """Folders of this machine that need disk space."""
        return {"data": self.data, "artifacts": self.artifact_directory}


def load(**flags: Any) -> Settings:
    """Read the settings of this process, once."""
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        settings = Settings(**given)
    except SettingsError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    except ValidationError as error:
        raise ValueError(explain_all(error, Settings, secret=True)) from error
    config = config_file(os.environ)
    if "data" not in given and not any(name.upper() == "DROIDHERD_DATA" for name in os.environ):
        settings = settings.model_copy(update={"data": _data_of(settings, config)})
    return _with_places(settings, config)


def _with_places(settings: Settings, config: Path) -> Settings:
    """With files and folders as they are meant, whatever the present folder is.

    What the file with settings names is meant from its folder; all else from the folder that holds the data directory.
    """
    named: Mapping[str, Any] = _File(Settings, toml_file=config)()
    for name, field in PLACES:
        group: Group = getattr(settings, name)
        value: str | tuple[str, ...] = getattr(group, field)
        in_file = named.get(name, {}).get(field)
        is_from_file = (tuple(in_file) if isinstance(in_file, list) else in_file) == value
        home = (config if is_from_file else settings.data).absolute().parent
        if value and home != Path.cwd():
            moved = tuple(str(home / one) for one in value) if isinstance(value, tuple) else str(home / value)
            same = type(group).model_construct(group.model_fields_set, **{**vars(group), field: moved})
            settings = settings.model_copy(update={name: same})
    return settings


def config_file(environment: Mapping[str, str]) -> Path:
    """The file with settings, which need not exist."""
    given = environment.get("DROIDHERD_CONFIG")
    return Path(given) if given else _nearest(CONFIG_FILE) or Path(CONFIG_FILE)


def _data_of(settings: Settings, config: Path) -> Path:
    """The data directory, when neither a flag nor a variable names it."""
    if "data" in settings.model_fields_set:
        return settings.data if config.parent == Path() else config.parent / settings.data
    beside = config.parent / settings.data if config.exists() else settings.data
    return _nearest(INSTANCE_FOLDER) or beside


def _nearest(name: str) -> Path | None:
    """The one of this folder, as it is, or that of the nearest folder above which has one that is ours."""
    here = Path(name)
    if here.exists():
        return here
    above = (folder / name for folder in Path.cwd().parents)
    return next((path for path in above if path.exists() and _is_own(path)), None)


def _is_own(path: Path) -> bool:
    """Above this folder somebody else may have put one down, in `/tmp` say."""
    return sys.platform == "win32" or path.stat().st_uid == os.getuid()
