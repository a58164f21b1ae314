"""The clients of Python."""

import asyncio
import datetime
import time

from worlds import Client, Sender, new_key, outcome


class Stripe(Client):
    package = preset = "stripe"
    ok = {"body": {"id": "pi_$run", "object": "payment_intent"}}
    declined = {"status": 402, "body": {"error": {"type": "card_error", "code": "card_declined"}}}
    broken = {"status": 503, "body": {"error": {}}, "headers": {"stripe-should-retry": "true"}}
    other = "IdempotencyError"

    def call(self, world, key, amount, headers):
        import stripe

        client = stripe.StripeClient("sk_test_1", base_addresses={"api": world.url},
                                     max_network_retries=2)
        options = {"idempotency_key": key, "headers": headers}
        made = client.v1.payment_intents.create({"amount": amount, "currency": "eur"}, options)
        return made.id


class Square(Client):
    package, preset = "squareup", "square"
    ok = {"body": {"payment": {"id": "run $run"}}}
    declined = {"status": 402, "body": {"errors": [{"category": "PAYMENT_METHOD_ERROR",
                                                    "code": "CARD_DECLINED"}]}}
    broken = {"status": 500, "body": {"errors": []}}
    other = "ApiError"
    declined_runs = 2

    def call(self, world, key, amount, headers):
        from square import Square

        made = Square(token="t", base_url=world.url).payments.create(
            source_id="cnon", idempotency_key=key, amount_money={"amount": amount, "currency": "EUR"},
            request_options={"max_retries": 2, "additional_headers": headers})
        return made.payment.id


class Adyen(Client):
    package, preset = "Adyen", "adyen"
    ok = {"body": {"pspReference": "run $run", "resultCode": "Authorised"}}
    declined = {"status": 422, "body": {"status": 422, "errorCode": "101", "message": "no",
                                        "errorType": "validation"}}
    broken = {**declined, "status": 500, "headers": {"transient-error": "true"}}
    other = "AdyenAPIUnprocessableEntity"

    def call(self, world, key, amount, headers):
        import Adyen

        api = Adyen.Adyen(xapikey="k", platform="test").checkout.payments_api
        api.baseUrl = world.url + "/v72"
        made = api.payments({"amount": {"value": amount, "currency": "EUR"}}, idempotency_key=key,
                            header_parameters=headers)
        return made.message["pspReference"]


class Boto3(Client):
    package, preset = "boto3", "aws"
    arguments = ["/ClientRequestToken"]
    ok = {"body": {"Aliases": [{"Name": "run$run"}]}}
    declined = {"status": 400, "body": {"__type": "BadRequest", "message": "no"}}
    broken = {"status": 500, "body": {"__type": "InternalServerError", "message": "no"}}
    other = "ClientError"
    declined_runs = 2

    def call(self, world, key, amount, headers):
        import boto3
        from botocore.config import Config

        client = boto3.client("fsx", region_name="eu-west-1", endpoint_url=world.url,
                              aws_access_key_id="a", aws_secret_access_key="s",
                              config=Config(retries={"mode": "standard", "total_max_attempts": 4}))

        def add(request, **_):
            for name, value in headers.items():
                request.headers[name] = value

        client.meta.events.register("before-sign.fsx", add)
        made = client.associate_file_system_aliases(
            ClientRequestToken=key, FileSystemId="fs-0123456789abcdef0", Aliases=[f"a{amount}.b.c"])
        return made["Aliases"][0]["Name"]


class AzureCalls(Client):
    package, preset = "azure-communication-callautomation", "azure"
    ok = {"status": 201, "body": {"callConnectionId": "run $run", "targets": []}}
    declined = {"status": 403, "body": {"error": {"code": "Forbidden", "message": "no"}}}
    broken = {"status": 503, "body": {"error": {"code": "ServiceUnavailable", "message": "no"}}}
    other = "HttpResponseError"

    def call(self, world, key, amount, headers):
        from azure.communication.callautomation import (CallAutomationClient,
                                                        CommunicationUserIdentifier)
        from azure.core.credentials import AzureKeyCredential

        client = CallAutomationClient(world.url, AzureKeyCredential("c2VjcmV0"))
        made = client.create_call(CommunicationUserIdentifier("u"), "https://example.com",
                                  operation_context=str(amount), retry_backoff_factor=0.1,
                                  headers={"Repeatability-Request-ID": key, **headers})
        return made.call_connection_id


class AzureChat(AzureCalls):
    package = "azure-communication-chat"
    ok = {"status": 201, "body": {"chatThread": {
        "id": "run $run", "topic": "t", "createdOn": "2020-10-30T10:50:50Z",
        "createdByCommunicationIdentifier": {"rawId": "u", "communicationUser": {"id": "u"}}}}}

    def call(self, world, key, amount, headers):
        from azure.communication.chat import ChatClient, CommunicationTokenCredential

        # A token without a signature, which ends in 2100.
        token = "e30.eyJleHAiOjQxMDI0NDQ4MDB9.e30"
        client = ChatClient(world.url, CommunicationTokenCredential(token))
        made = client.create_chat_thread(f"topic {amount}", idempotency_token=key, headers=headers,
                                         enforce_https=False, retry_backoff_factor=0.1)
        return made.chat_thread.id


class PyIceberg(Client):
    package, preset = "pyiceberg", "iceberg"
    free = {"GET /v1/config": {"body": {"defaults": {}, "overrides": {},
                                        "idempotency-key-lifetime": "PT24H"}}}
    ok = {"body": {"namespace": ["run$run"], "properties": {}}}
    declined = {"status": 409, "body": {"error": {"message": "no", "code": 409,
                                                  "type": "AlreadyExistsException"}}}
    broken = {"status": 500, "body": {"error": {"message": "no", "code": 500,
                                                "type": "InternalServerError"}}}
    other = "RESTError"

    def call(self, world, key, amount, headers):
        from pyiceberg.catalog import load_catalog

        # It makes no keys itself.
        named = {f"header.{name}": value for name, value in headers.items()}
        catalog = load_catalog("c", type="rest", uri=world.url,
                               **{"header.Idempotency-Key": key, **named})
        catalog.create_namespace("n", {"amount": str(amount)})
        return "created"


class Mcp(Client):
    package = preset = "mcp"
    arguments = ["pay"]
    free = {
        "server/discover": {"body": {"jsonrpc": "2.0", "id": "$id",
                                     "error": {"code": -32601, "message": "no such method"}}},
        "initialize": {"body": {"jsonrpc": "2.0", "id": "$id", "result": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}}}},
        "tools/list": {"body": {"jsonrpc": "2.0", "id": "$id", "result": {"tools": [
            {"name": "pay", "inputSchema": {"type": "object"}}]}}},
    }
    result = {"jsonrpc": "2.0", "id": "$id", "result": {
        "content": [{"type": "text", "text": "run $run"}], "isError": False}}
    ok = {"body": result}
    declined = {"body": {"jsonrpc": "2.0", "id": "$id", "error": {"code": -32001, "message": "no"}}}
    broken = {"body": {"jsonrpc": "2.0", "id": "$id", "error": {"code": -32603, "message": "no"}}}
    other = "MCPError"

    def call(self, world, key, amount, headers, **more):
        from mcp import Client

        async def run():
            async with Client(world.url + "/mcp") as client:
                made = await client.call_tool("pay", {"amount": amount}, **more,
                                              meta={"idempotencyKey": key, **headers})
                return made.content[0].text

        return unwrapped(run())

    def case_stream(self):
        """A progress arrives before the result, which waits for it."""
        progress = {"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": "$id", "progress": 1}}
        world, key = self.world({"events": [progress, self.result]}), new_key()

        async def on_progress(*_):
            world.next()

        first = outcome(lambda: self.call(world, key, 5, {}, progress_callback=on_progress,
                                          read_timeout_seconds=10))
        self.one_effect(world, first, self.send(world, key))

    def case_cancel(self):
        """The client gives up, and asks again while the tool still works."""
        world, key = self.world({**self.ok, "requests": 2}), new_key()
        gone = outcome(lambda: self.call(world, key, 5, {}, read_timeout_seconds=0.5))
        assert gone[0] == "error", f"{gone}"
        self.one_effect(world, self.send(world, key))


class A2a(Client):
    package, preset = "a2a-sdk", "a2a"
    ok = {"body": {"jsonrpc": "2.0", "id": "$id", "result": {"message": {
        "messageId": "run $run", "role": "ROLE_AGENT", "parts": [{"text": "done"}]}}}}
    declined = {"body": {"jsonrpc": "2.0", "id": "$id",
                         "error": {"code": -32602, "message": "no"}}}
    broken = {"body": {"jsonrpc": "2.0", "id": "$id", "error": {"code": -32603, "message": "no"}}}
    other = "A2AClientError"

    def call(self, world, key, amount, headers):
        import httpx
        from a2a.client import ClientConfig, create_client, minimal_agent_card
        from a2a.types import Message, Part, Role, SendMessageRequest

        async def run():
            card = minimal_agent_card(world.url + "/a2a", ["JSONRPC"])
            config = ClientConfig(streaming=False, httpx_client=httpx.AsyncClient(timeout=60))
            client = await create_client(card, config)
            message = Message(message_id=key, role=Role.ROLE_USER, parts=[Part(text=f"pay {amount}")])
            async for made in client.send_message(SendMessageRequest(message=message)):
                return made.message.message_id

        return unwrapped(run())


def unwrapped(run):
    """Returns the error itself, where tasks wrap it in groups."""
    try:
        return asyncio.run(run)
    except ExceptionGroup as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error


class StripeWebhook(Sender):
    package, preset, secret = "stripe", "webhooks/stripe", "whsec_A"

    def sign(self, key, body):
        import stripe

        now = int(time.time())
        signed = stripe.WebhookSignature._compute_signature(f"{now}.{body}", self.secret)
        return "/", {"stripe-signature": f"t={now},v1={signed}"}, body


class StandardWebhook(Sender):
    package, preset = "standardwebhooks", "webhooks/standard_webhooks"
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSA"
    prefix = "webhook"

    def sign(self, key, body):
        now = datetime.datetime.now(datetime.timezone.utc)
        signed = self.module().Webhook(self.secret).sign(key, now, body)
        values = {"id": key, "timestamp": str(int(now.timestamp())), "signature": signed}
        return "/", {f"{self.prefix}-{name}": value for name, value in values.items()}, body

    def module(self):
        import standardwebhooks

        return standardwebhooks


class SvixWebhook(StandardWebhook):
    package, preset, prefix = "svix", "webhooks/svix", "svix"

    def module(self):
        import svix.webhooks

        return svix.webhooks


class SlackWebhook(Sender):
    package, preset = "slack_sdk", "webhooks/slack"

    def sign(self, key, body):
        from slack_sdk.signature import SignatureVerifier

        now = str(int(time.time()))
        signed = SignatureVerifier(self.secret).generate_signature(timestamp=now, body=body)
        return "/", {"x-slack-request-timestamp": now, "x-slack-signature": signed}, body


class TwilioWebhook(Sender):
    package, preset = "twilio", "webhooks/twilio"
    url, algorithm = "https://example.com/hook", "HMAC_SHA1"
    kind = "application/x-www-form-urlencoded"

    def body(self, key, amount):
        return f"MessageSid=SM1&Price={amount}"

    def sign(self, key, body):
        from twilio.request_validator import RequestValidator

        fields = dict(pair.split("=") for pair in body.split("&"))
        signed = RequestValidator(self.secret).compute_signature(
            self.url + "?a=b", fields, self.algorithm)
        headers = {"x-twilio-signature": signed, "i-twilio-idempotency-token": key}
        return "/inside?a=b", headers, body


class TwilioSharedKey(TwilioWebhook):
    preset, algorithm = "webhooks/twilio_shared_key", "HMAC_SHA256"


CLIENTS = [Stripe, Square, Adyen, Boto3, AzureCalls, AzureChat, PyIceberg, Mcp, A2a, StripeWebhook,
           StandardWebhook, SvixWebhook, SlackWebhook, TwilioWebhook, TwilioSharedKey]
