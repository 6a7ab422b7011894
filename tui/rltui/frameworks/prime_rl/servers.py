"""Inference servers of prime-rl's runs that somebody else runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from rltui.base.template import Missing
from rltui.core.experiment.servers import ServerAddress, server_url
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import ServiceCall
from rltui.frameworks.prime_rl import endpoints, ports
from rltui.frameworks.prime_rl.configs import PARTS
from rltui.frameworks.prime_rl.run_config import RunConfigReader
from rltui.frameworks.prime_rl.values import is_table
from rltui.frameworks.schemas import SchemaConfig
from rltui.frameworks.servers import ServersSide

TRAINED = "it still has the trained weights of the previous run, and nothing resets them"
_SERVER = "http://localhost:8000/v1"
"""Default address of a server in prime-rl."""


@dataclass(frozen=True, slots=True)
class PrimeRlServers:
    run: RunConfigReader
    reader: SchemaConfig
    """Reads values of its config."""

    @property
    def side(self) -> ServersSide:
        return ServersSide(
            most=None,
            addresses=self._addresses,
            further=self.further,
            absent=self._absent,
            weights_by=self._weights_by,
            weights_reset=self._weights_reset,
        )

    def _addresses(self, files: ConfigFiles) -> tuple[ServerAddress, ...]:
        """The servers that the orchestrator uses if none is started."""
        if not files.keys() & {"rl", "orchestrator"} and not ("sft" in files and self.run.has_parts(files)):
            return ()
        chosen, data = self.run.servers, self.run.as_written(files)
        if not chosen and (is_table(data, "inference") or is_table(data, endpoints.ROLLOUTS_OF_SPRING)):
            return ()
        values, g = self.reader.values(files), self.run.generation_of(files)
        key = ("sft." if g.role == "sft" else "") + ports.base_url_key(g, data)
        client = ports.client_table(key)
        variable, admin = values.get(f"{client}.api_key_var"), values.get(f"{client}.admin_base_url")
        model = values.get("sft.model.name" if g.role == "sft" else "orchestrator.model.name")
        addresses = chosen or values.get(key) or _SERVER
        urls = addresses if isinstance(addresses, list | tuple) else [addresses]
        admins = admin if isinstance(admin, list) and len(admin) == len(urls) else [""] * len(urls)
        return tuple(
            ServerAddress(
                endpoints.checked(server_url, key, str(url)),
                key_variable=variable if isinstance(variable, str) else "",
                model=model if isinstance(model, str) else None,
                is_strict=values.get(f"{client}.skip_model_check") is not True,
                admin_url=""
                if chosen or not engine
                else endpoints.checked(server_url, f"{client}.admin_base_url", str(engine)),
            )
            for url, engine in zip(urls, admins, strict=True)
        )

    def further(self, files: ConfigFiles) -> tuple[ServerAddress, ...]:
        """Frozen models, then env servers."""
        data = self.run(files)

        def own_ports() -> list[int]:
            knobs = ports.knobs(self.run.generation_of(files), data, ())
            return [knob.port for knob in knobs if knob.component == "inference"]

        return (*endpoints.frozen_models(data, own_ports), *endpoints.env_servers(data))

    def _absent(self, files: ConfigFiles) -> tuple[str, ...]:
        """The programs without a file, if each has one of its own; inference if a teacher generates all."""
        if is_table(self.run.as_written(files), endpoints.ROLLOUTS_OF_SPRING):
            return ("inference",)
        if self.run.generation.has_launchers or "sft" in files:
            return ()
        return tuple(
            part for part in PARTS if part not in files or (part == "inference" and self.run.servers)
        )

    def _weights_by(self, files: ConfigFiles) -> str:
        """The worker of an engine knows one transport."""
        return ports.transport(self.run.generation_of(files), self.run.of_parts(files), ports.WEIGHTS)

    def _weights_reset(
        self, files: ConfigFiles, context: RunContext, root: str
    ) -> ServiceCall | Missing | None:
        """In 2025 the orchestrator resets it, from August 2026 on the trainer's first weights replace
        them; in between a server loads those of a folder, if the model is one.
        """
        g = self.run.generation_of(files)
        if g.resends_weights:
            return None
        model = self.reader.values(files).get(
            "sft.model.name" if g.role == "sft" else "orchestrator.model.name"
        )
        folder = PurePath(context.workspace) / str(model)
        if str(model).startswith((".", "/")):
            purpose = "reset it to the base weights"
            return ServiceCall(
                "inference", f"{root}/update_weights", purpose, {"weight_dir": str(folder)}, required=True
            )
        return Missing(TRAINED, hint="restart that server first")
