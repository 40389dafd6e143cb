"""What each part of a request costs, in the middle between two archives: `python -m tests.bench.tokens`"""

from __future__ import annotations

import json
from collections.abc import Iterator

import agent

PLAN = "plan, " * 40
INSTRUCTIONS = "do, " * 37
ACT = agent.ActionRecord(
    1,
    "click_screen_element",
    '"the name" (500, 500)',
    "",
    "",
    "worked, the window shows it",
    True,
)


def token_table(config: agent.Config) -> Iterator[str]:
    """The lines of the table, a role each; a token is 4 characters of text or 1024 image pixels."""
    yield "tokens: 4 characters of text, 1024 image pixels"
    yield "profile    role      prompt  tools  image  context    sum"
    turns = config.memory_compression_threshold // 2
    memory = agent.AgentMemory(active_history=[ACT] * turns)
    state = agent.AgentState(
        'Open Notes, write "Hello from agent.py" and save it.',
        memory,
        1,
        "EXECUTION",
        PLAN,
        INSTRUCTIONS,
    )
    context = len(state.get_context()) // 4
    image = agent.screen_size(config).pixels // 1024
    for profile in agent.PROFILES.values():
        for key, role in profile.roles.items():
            prompt = len(profile.system(role)) // 4
            tools = len(json.dumps(profile.schemas(role) or "")) // 4
            seen = 0 if key == "planner" else image
            whole = prompt + tools + seen + context
            yield (
                f"{profile.name:<10} {role.name:<9}"
                f"{prompt:>7} {tools:>6} {seen:>6} {context:>8} {whole:>6}"
            )


if __name__ == "__main__":
    for line in token_table(agent.Config()):
        print(line)
