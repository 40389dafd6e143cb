"""A run with --described against replies written by hand, in virtual time, on a plain desktop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.scripted import EngineCase, Message, PlainDesktop, ScriptedServer, user_text

TASK = "Press the button"


def call_names(request: dict[str, Any]) -> list[str]:
    """The names of the tools that a request offers."""
    return [item["function"]["name"] for item in request.get("tools", [])]


def arguments(request: dict[str, Any], name: str) -> tuple[set[str], set[str]]:
    """The arguments of a tool that a request offers, and those of them that it requires."""
    for item in request["tools"]:
        if item["function"]["name"] == name:
            parameters = item["function"]["parameters"]
            return set(parameters["properties"]), set(parameters["required"])
    raise AssertionError(name)


def said(content: str, name: str, /, **given: Any) -> Message:
    """A reply with words and one call."""
    function = {"name": name, "arguments": json.dumps(given)}
    tool_calls = [{"id": "1", "type": "function", "function": function}]
    return {"role": "assistant", "content": content, "tool_calls": tool_calls}


class Exchange:
    """What a run with --described asked, did and left."""

    def __init__(
        self, case: EngineCase, profile: str, replies: Sequence[Message], *more: str
    ) -> None:
        argv = [TASK, "--profile", profile, "--described", *more]
        options = agent.read_options([*argv, "--set", f"dump_dir={case.folder / 'dumps'}"])
        options.profile = profile
        self.config = agent.read_config(options, {})
        stop = agent.Stop()
        clock = VirtualClock(stop)
        self.desktop = PlainDesktop(clock)
        self.times: list[float] = []
        script = iter(replies)

        def decide(_: dict[str, Any]) -> Message:
            self.times.append(clock.now())
            return next(script)

        server = ScriptedServer(decide)
        logger = agent.ExecutionLogger(self.config.dump_dir)
        case.addCleanup(logger.close)
        engine = agent.make_engine(
            self.config,
            agent.chosen_profile(profile, self.config),
            self.desktop,
            agent.Actuator(self.desktop, self.config, clock, stop),
            server,
            logger,
            clock,
            agent.ModelInfo("scripted"),
            lambda line: None,
        )
        state = agent.AgentState(TASK, agent.AgentMemory(self.config.memory_compression_threshold))
        self.outcome = agent.run_agent(engine, state)
        logger.close()
        self.requests = server.requests
        self.roles = server.roles
        self.left = len(list(script))
        self.folder = logger.folder
        self.log = (logger.folder / "execution_log.txt").read_text("utf-8")

    def system(self, number: int) -> str:
        """The system prompt of a request, the first of which is 1."""
        return str(self.requests[number - 1]["messages"][0]["content"])

    def user(self, number: int) -> str:
        """The text of its user message."""
        return user_text(self.requests[number - 1])

    def parts(self, number: int) -> list[str]:
        """The kinds of the parts of its user message, in their order."""
        content = self.requests[number - 1]["messages"][1]["content"]
        return ["text"] if isinstance(content, str) else [part["type"] for part in content]

    def screenshots(self) -> list[str]:
        """The names of the run's screenshots."""
        return sorted(path.name for path in (self.folder / "screenshots").iterdir())
