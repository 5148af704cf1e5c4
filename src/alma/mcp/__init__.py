"""The MCP server: every operation of a memory as a tool, with resources and prompts.

python -m alma.mcp --config .alma/config.yaml

It speaks over standard input and output, or over streamable HTTP on this machine with a bearer token. It needs the
package `mcp`: pip install '.[mcp]' in the checkout of alma. `alma.mcp.clients` writes it into the settings of clients.
"""
