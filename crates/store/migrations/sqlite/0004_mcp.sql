-- The tokens of the MCP servers that a project allows, sealed with its data key.
ALTER TABLE projects ADD COLUMN mcp_credentials BLOB;
