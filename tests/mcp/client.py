"""The `mcp` package of PyPI calls a server: client.py MODE SERVER-COMMAND... < JSON list of [tool, arguments]

Prints JSON: the revision, the names of the tools, how often progress was told, and [isError, kinds of content, answer]
of each call. MODE is "auto" (the latest revision), or "legacy" (a handshake).
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters, stdio_client


async def main(mode: str, command: str, *args: str) -> None:
    server = StdioServerParameters(command=command, args=[*args], env=dict(os.environ))
    told: list[float] = []

    async def progress(done: float, _total: object, _message: object) -> None:
        told.append(done)

    async with Client(stdio_client(server), mode=mode) as client:
        tools = await client.list_tools()
        answers = []
        for name, arguments in json.load(sys.stdin):
            result = await client.call_tool(name, arguments, progress_callback=progress)
            kinds = [part.type for part in result.content]
            answers.append((result.is_error, kinds, result.structured_content))
        names = [tool.name for tool in tools.tools]
        revision = client.protocol_version
        print(
            json.dumps(
                {"revision": revision, "tools": names, "told": len(told), "answers": answers}
            )
        )


asyncio.run(main(*sys.argv[1:]))
