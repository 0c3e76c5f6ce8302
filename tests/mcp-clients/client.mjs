// Lists and answers a live request with the official TypeScript SDK: client.mjs 1|2 TASK COMMAND...
import assert from "node:assert/strict";
import Ajv2020 from "ajv/dist/2020.js";

const [generation, task, command, ...args] = process.argv.slice(2);
const older = generation === "1";
const { Client } = await import(older ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = await import(
  older ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio"
);

const options = older ? {} : { versionNegotiation: { mode: "auto" } };
const client = new Client({ name: "mcp-clients", version: "1" }, options);
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
assert.deepEqual([...tools.keys()], ["list_pending_agent_permissions", "resolve_agent_permission"]);

async function call(name, args) {
  const result = await client.callTool({ name, arguments: args });
  if (!result.isError) {
    const validate = new Ajv2020({ strict: false }).compile(tools.get(name).outputSchema);
    assert.ok(validate(result.structuredContent), JSON.stringify(validate.errors));
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
  }
  return result;
}

const listed = await call("list_pending_agent_permissions", { task_id: task });
const { task_id, session_id, request_id, pending_id, options: offered } = listed.structuredContent.permissions[0];
const answer = { task_id, session_id, request_id, pending_id, option_id: offered[0].option_id };
const resolved = await call("resolve_agent_permission", answer);
assert.equal(resolved.structuredContent.source, "external_mcp");
const again = await call("resolve_agent_permission", answer);
assert.ok(again.isError);
assert.equal(JSON.parse(again.content[0].text).code, "permission_already_resolved");
const { resources } = await client.listResources();
assert.deepEqual(resources.map((resource) => resource.uri), ["agentctl://permissions/pending"]);
const read = await client.readResource({ uri: resources[0].uri });
assert.equal(JSON.parse(read.contents[0].text).total, 0);
const era = client.getNegotiatedProtocolVersion?.() ?? "with initialize";
console.log(`typescript sdk ${generation}, ${era}: listed, answered, refused the second answer`);
await client.close();
