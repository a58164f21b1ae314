// The calls of Node's clients: reads a call per line, and writes what became of it.

import { createInterface } from "node:readline";

const CALLS = {
  async stripe({ port, key, amount }) {
    const { default: Stripe } = await import("stripe");
    const options = { host: "127.0.0.1", port, protocol: "http", maxNetworkRetries: 2 };
    const client = new Stripe("sk_test_1", options);
    const made = { amount, currency: "eur" };
    return (await client.paymentIntents.create(made, { idempotencyKey: key })).id;
  },

  async fsx({ url, key, amount, headers }) {
    const { FSxClient, AssociateFileSystemAliasesCommand } = await import("@aws-sdk/client-fsx");
    const client = new FSxClient({
      region: "eu-west-1", endpoint: url, credentials: { accessKeyId: "a", secretAccessKey: "s" },
    });
    const add = (next) => (args) => next({ ...args, request: withHeaders(args.request, headers) });
    client.middlewareStack.add(add, { step: "build" });
    const input = { ClientRequestToken: key, FileSystemId: "fs-0123456789abcdef0", Aliases: [`a${amount}.b.c`] };
    return (await client.send(new AssociateFileSystemAliasesCommand(input))).Aliases[0].Name;
  },

  async mcp({ url, key, amount, headers, timeout, next }) {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport: Transport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "c", version: "1" });
    await client.connect(new Transport(new URL(`${url}/mcp`)));
    const _meta = { idempotencyKey: key, ...headers };
    const onprogress = next && (() => fetch(next, { method: "POST" }));
    const call = { name: "pay", arguments: { amount }, _meta };
    try {
      return (await client.callTool(call, undefined, { timeout, onprogress })).content[0].text;
    } finally {
      await client.close();
    }
  },

  async stripeSignature({ secret, body }) {
    const { default: Stripe } = await import("stripe");
    const payload = { payload: body, secret };
    return { "stripe-signature": new Stripe("sk_test_1").webhooks.generateTestHeaderString(payload) };
  },

  async octokitSignature({ secret, body }) {
    const { sign } = await import("@octokit/webhooks-methods");
    return { "x-hub-signature-256": await sign(secret, body) };
  },

  async shopifySignature({ secret, body }) {
    const { createSHA256HMAC } = await import("@shopify/shopify-api/runtime");
    return { "hmac-sha256": await createSHA256HMAC(secret, body) };
  },

  async twilioSignature({ secret, url, fields }) {
    const { default: twilio } = await import("twilio");
    return { "x-twilio-signature": twilio.getExpectedTwilioSignature(secret, url, fields) };
  },
};

function withHeaders(request, headers) {
  Object.assign(request.headers, headers);
  return request;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { number, name, ...call } = JSON.parse(line);
  const ended = (outcome) => console.log(JSON.stringify({ number, outcome }));
  CALLS[name](call).then(
    (value) => ended(["ok", value]),
    (error) => ended(["error", error.type ?? error.name]),
  );
}
