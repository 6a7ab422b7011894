"""The server for agents whose programs speak MCP, the Model Context Protocol. Only this folder imports the
SDK, `mcp`, an extra of rltui; `rltui mcp` runs it as a program of its own.
"""
