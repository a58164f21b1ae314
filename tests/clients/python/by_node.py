"""The clients of Node, whose calls `../node/calls.mjs` makes."""

import itertools
import json
import os
import subprocess
import threading

import clients

FOLDER = os.environ.get("IDEM_NODE_MODULES", "")


class Process:
    """A process of Node that makes calls, several at a time."""

    def __init__(self):
        program = os.path.join(FOLDER, "calls.mjs")
        self.process = subprocess.Popen(["node", program], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, cwd=FOLDER)
        self.numbers, self.lock, self.ended = itertools.count(), threading.Condition(), {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.lock:
                answer = json.loads(line)
                self.ended[answer["number"]] = answer["outcome"]
                self.lock.notify_all()

    def call(self, name, **arguments):
        with self.lock:
            number = next(self.numbers)
            line = json.dumps({"number": number, "name": name, **arguments})
            print(line, file=self.process.stdin, flush=True)
            assert self.lock.wait_for(lambda: number in self.ended, 60), "no answer of Node"
            kind, value = self.ended.pop(number)
        if kind == "error":
            raise type(value, (Exception,), {})
        return value


class ByNode:
    language = "Node"
    process = None

    def __init__(self):
        with open(os.path.join(FOLDER, "node_modules", self.package, "package.json")) as file:
            self.version = json.load(file)["version"]
        ByNode.process = ByNode.process or Process()

    def call(self, world, key, amount, headers):
        return self.process.call(self.name, url=world.url, port=world.port, key=key, amount=amount,
                                 headers=headers)


class NodeSender(ByNode):
    call = clients.Sender.call

    def sign(self, key, body):
        return "/", self.process.call(self.name, secret=self.secret, body=body), body


class NodeStripe(ByNode, clients.Stripe):
    name, other = "stripe", "StripeIdempotencyError"
    case_other_headers = None  # A call cannot set them.


class Fsx(ByNode, clients.Boto3):
    package, name, other = "@aws-sdk/client-fsx", "fsx", "IdempotentParameterMismatch"


class NodeMcp(ByNode, clients.Mcp):
    package, name, other = "@modelcontextprotocol/sdk", "mcp", "McpError"

    def call(self, world, key, amount, headers, read_timeout_seconds=60, progress_callback=None):
        return self.process.call(self.name, url=world.url, key=key, amount=amount, headers=headers,
                                 timeout=int(read_timeout_seconds * 1000),
                                 next=progress_callback and world.itself)


class NodeStripeWebhook(NodeSender, clients.StripeWebhook):
    name = "stripeSignature"


class OctokitWebhook(NodeSender, clients.Sender):
    package, preset, name = "@octokit/webhooks-methods", "webhooks/github", "octokitSignature"

    def sign(self, key, body):
        path, headers, body = super().sign(key, body)
        return path, {**headers, "x-github-delivery": key, "x-github-event": "ping"}, body


class ShopifyWebhook(NodeSender, clients.Sender):
    package, preset, name = "@shopify/shopify-api", "webhooks/shopify", "shopifySignature"
    prefix = "x-shopify-"

    def sign(self, key, body):
        path, signed, body = super().sign(key, body)
        headers = {"event-id": key, "webhook-id": key, "topic": "orders/paid", **signed}
        return path, {self.prefix + name: value for name, value in headers.items()}, body


class ShopifyEvent(ShopifyWebhook):
    preset, prefix = "webhooks/shopify_events", "shopify-"


class NodeTwilioWebhook(NodeSender, clients.TwilioWebhook):
    """Signs a query that it escapes otherwise than it sends it."""

    name = "twilioSignature"

    def sign(self, key, body):
        fields = dict(pair.split("=") for pair in body.split("&"))
        headers = self.process.call(self.name, secret=self.secret, fields=fields,
                                    url=self.url + "?a=O%27Reilly")
        return "/inside?a=O'Reilly", {**headers, "i-twilio-idempotency-token": key}, body


CLIENTS = [NodeStripe, Fsx, NodeMcp, NodeStripeWebhook, OctokitWebhook, ShopifyWebhook,
           ShopifyEvent, NodeTwilioWebhook]
