"""The clients of Python."""

import asyncio
import datetime
import json
import time

from worlds import Client, Sender, new_key, outcome

SENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


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
        return self.create(client, amount, options).id

    def create(self, client, amount, options):
        return client.v1.payment_intents.create({"amount": amount, "currency": "eur"}, options)


class StripeV2(Stripe):
    preset, ok = "stripe_v2", {"body": {"id": "run $run", "object": "v2.core.event_destination"}}
    declined_runs = 2

    def create(self, client, amount, options):
        made = {"name": str(amount), "type": "webhook_endpoint", "event_payload": "thin",
                "enabled_events": ["v1.billing.meter.error_report_triggered"]}
        return client.v2.core.event_destinations.create(made, options)


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


class AzureEmail(AzureCalls):
    package, polled = "azure-communication-email", "GET /emails/operations/1"
    done = {"body": {"id": "1", "status": "Succeeded"}}
    failed = {"body": {"id": "1", "status": "Failed", "error": {"code": "no", "message": "no"}}}
    free = {polled: done}
    ok = {"status": 202, "headers": {"operation-location": "/emails/operations/1"},
          "body": {"id": "1", "status": "Running"}}
    case_long_running = Client.ends_as_it_ended

    def call(self, world, key, amount, headers):
        from azure.communication.email import EmailClient
        from azure.core.credentials import AzureKeyCredential

        client = EmailClient(world.url, AzureKeyCredential("c2VjcmV0"))
        message = {"content": {"subject": str(amount)}, "senderAddress": "a@example.com"}
        begun = client.begin_send(message, polling_interval=0.1, retry_backoff_factor=0.1,
                                  headers={"Repeatability-Request-ID": key, **headers})
        return begun.result()["status"]


class BackupDr(Client):
    package, preset = "google-cloud-backupdr", "aip155"
    name = "projects/p/locations/l"
    polled = f"GET /v1/{name}/operations/1"
    done = {"body": {"name": f"{name}/operations/1", "done": True, "response": {
        "@type": "type.googleapis.com/google.cloud.backupdr.v1.ManagementServer", "name": "m"}}}
    failed = {"body": {"name": f"{name}/operations/1", "done": True,
                       "error": {"code": 9, "message": "no"}}}
    free = {polled: done}
    ok = {"body": {"name": f"{name}/operations/1"}}
    declined = {"status": 403, "body": {"error": {"code": 403, "message": "no"}}}
    broken = {"status": 503, "body": {"error": {"code": 503, "message": "no"}}}
    other, declined_runs = "BadRequest", 2
    case_long_running = Client.ends_as_it_ended

    def call(self, world, key, amount, headers):
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import backupdr_v1

        client = backupdr_v1.BackupDRClient(credentials=AnonymousCredentials(), transport="rest",
                                            client_options={"api_endpoint": world.url})
        request = {"parent": self.name, "management_server_id": "m", "request_id": key,
                   "management_server": {"description": str(amount)}}
        begun = client.create_management_server(request, metadata=list(headers.items()))
        return begun.result(timeout=30).name


class PayPal(Client):
    package, preset = "paypal-server-sdk", "paypal"
    free = {"POST /v1/oauth2/token": {"body": {"access_token": "t", "token_type": "Bearer",
                                               "expires_in": 60}}}
    ok = {"status": 201, "body": {"id": "run $run", "status": "CREATED"}}
    declined = {"status": 422, "body": {"name": "UNPROCESSABLE_ENTITY", "message": "no",
                                        "debug_id": "d"}}
    broken = {**declined, "status": 500}
    other, declined_runs = "ErrorException", 2

    def call(self, world, key, amount, headers):
        from paypalserversdk import configuration as settings
        from paypalserversdk.http.auth.o_auth_2 import ClientCredentialsAuthCredentials
        from paypalserversdk.paypal_serversdk_client import PaypalServersdkClient

        client = PaypalServersdkClient(config=settings.Configuration(
            max_retries=2, backoff_factor=0.1, retry_methods=["POST"],
            client_credentials_auth_credentials=ClientCredentialsAuthCredentials("i", "s")))
        client.config.environments = {
            client.config.environment: {settings.Server.DEFAULT: world.url}}
        unit = {"amount": {"currency_code": "EUR", "value": str(amount)}}
        options = {"paypal_request_id": key, "paypal_client_metadata_id": headers.get("x-attempt"),
                   "body": {"intent": "CAPTURE", "purchase_units": [unit]}}
        return client.orders.create_order(options).body.id


class Ucp(Client):
    package, preset = "ucp-client", "ucp"
    ok = {"body": {"id": "run $run", "ucp": {"version": "2026-01-11", "capabilities": []},
                   "line_items": [], "status": "incomplete", "currency": "EUR", "totals": [],
                   "links": [], "payment": {"handlers": []}}}
    declined = {"status": 422, "body": {"message": "no"}}
    broken = {"status": 503, "body": {"message": "no"}}
    other = "UCPClientError"

    def call(self, world, key, amount, headers):
        from ucp_client import client
        from ucp_sdk.models.schemas.shopping.checkout_create_req import CheckoutCreateRequest

        async def run():
            async with client.UCPClient(world.url) as ucp:
                ucp._client.headers.update(headers)
                item = {"item": {"id": "i"}, "quantity": amount}
                made = CheckoutCreateRequest(line_items=[item], currency="EUR", payment={})
                return (await ucp.create_checkout(made, key)).id

        return unwrapped(run())


class Urllib3(Client):
    package, preset = "urllib3", "ietf"
    ok = {"body": {"id": "run $run"}}
    # It sends again after each of these statuses, also after stored ones.
    declined = {"status": 402, "body": {"type": "about:blank"}}
    broken = {"status": 503, "body": {"type": "about:blank"}}
    other = "MaxRetryError"

    def call(self, world, key, amount, headers):
        import urllib3

        again = urllib3.Retry(2, allowed_methods=["POST"], backoff_factor=0.1,
                              status_forcelist=[402, 409, 422, 503])
        made = urllib3.request("POST", world.url + "/pay", json={"amount": amount}, retries=again,
                               headers={"Idempotency-Key": key, **headers})
        return made.json()["id"]


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

    def parameters(self, key, amount):
        return {"name": "pay", "arguments": {"amount": amount}, "meta": {"idempotencyKey": key}}

    def call(self, world, key, amount, headers, **more):
        from mcp import Client

        async def run():
            async with Client(world.url + "/mcp") as client:
                parameters = self.parameters(key, amount)
                parameters["meta"] = {**parameters.get("meta", {}), **headers}
                made = await client.call_tool(**parameters, **more)
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


class UcpMcp(Mcp):
    preset, named = "ucp_mcp", "idempotency-key"

    def parameters(self, key, amount):
        arguments = {"meta": {self.named: key}, "id": "c", "payload": {"amount": amount}}
        return {"name": "cancel_checkout", "arguments": arguments}


class AcpMcp(UcpMcp):
    preset, named = "acp_mcp", "idempotency_key"

    def parameters(self, key, amount):
        return {**super().parameters(key, amount), "name": "cancel_checkout_session"}


class AdCp(Mcp):
    package, preset, arguments = "adcp", "adcp", ["delete_property_list"]
    ok = {"body": {"jsonrpc": "2.0", "id": "$id", "result": {
        "content": [{"type": "text", "text": "done"}], "isError": False,
        "structuredContent": {"deleted": True, "list_id": "run $run"}}}}
    error = {"code": "PRODUCT_NOT_FOUND", "message": "no", "recovery": "correctable"}
    declined = {"body": {"jsonrpc": "2.0", "id": "$id", "result": {
        "content": [{"type": "text", "text": "no"}], "isError": True,
        "structuredContent": {"adcp_error": error, "errors": [error]}}}}
    other, declined_runs = "IdempotencyConflictError", 2
    case_cancel = case_stream = None

    def call(self, world, key, amount, headers):
        import adcp
        from adcp.types import DeletePropertyListRequest

        async def run():
            agent = adcp.AgentConfig(id="a", agent_uri=world.url + "/mcp", protocol="mcp",
                                     extra_headers=headers)
            async with adcp.ADCPClient(agent, server_version="3.0") as client:
                made = await client.delete_property_list(
                    DeletePropertyListRequest(list_id=f"l{amount}", idempotency_key=key))
                if not made.success:
                    raise RuntimeError(made.error)
                return made.data.list_id

        return unwrapped(run())


class A2a(Client):
    package, preset = "a2a-sdk", "a2a"
    ok = {"body": {"jsonrpc": "2.0", "id": "$id", "result": {"message": {
        "messageId": "run $run", "role": "ROLE_AGENT", "parts": [{"text": "done"}]}}}}
    declined = {"body": {"jsonrpc": "2.0", "id": "$id",
                         "error": {"code": -32602, "message": "no"}}}
    broken = {"body": {"jsonrpc": "2.0", "id": "$id", "error": {"code": -32603, "message": "no"}}}
    other = "A2AClientError"
    binding, path = "JSONRPC", "/a2a"

    def call(self, world, key, amount, headers):
        import httpx
        from a2a.client import ClientConfig, create_client, minimal_agent_card
        from a2a.types import Message, Part, Role, SendMessageRequest

        async def run():
            card = minimal_agent_card(world.url + self.path, [self.binding])
            card.capabilities.streaming = "events" in self.ok
            http = httpx.AsyncClient(timeout=60, headers=headers)
            config = ClientConfig(streaming=card.capabilities.streaming, httpx_client=http,
                                  supported_protocol_bindings=[self.binding])
            client, seen = await create_client(card, config), []
            message = Message(message_id=key, role=Role.ROLE_USER,
                              parts=[Part(text=f"pay {amount}")])
            async for made in client.send_message(SendMessageRequest(message=message)):
                seen.append(str(made).replace("\n", " "))
                world.next()
            return seen[-1]

        return unwrapped(run())


def task(state):
    status = {"state": "TASK_STATE_" + state}
    return {"task": {"id": "run $run", "contextId": "c", "status": status}}


class A2aStream(A2a):
    form = " (streams)"
    ok = {"events": [{"jsonrpc": "2.0", "id": "$id", "result": task("WORKING")},
                     {"jsonrpc": "2.0", "id": "$id", "result": task("COMPLETED")}]}

    def world(self, *answers, **plan):
        world = super().world(*answers, **plan)
        world.next()  # Only one case checks when an event arrives.
        return world

    def case_stream(self):
        """An event arrives before the server sends the next one."""
        world, key = super().world(), new_key()
        self.one_effect(world, self.send(world, key), self.send(world, key))


class A2aRest(A2a):
    preset, binding, path = "a2a_rest", "HTTP+JSON", ""
    ok = {"body": A2a.ok["body"]["result"]}
    declined = {"status": 400, "body": {"error": {"code": 400, "message": "no"}}}
    broken = {"status": 503, "body": {"error": {"code": 503, "message": "no"}}}
    declined_runs = 2


class A2aRestStream(A2aStream):
    preset, binding, path = A2aRest.preset, A2aRest.binding, A2aRest.path
    ok = {"events": [task("WORKING"), task("COMPLETED")]}
    declined, broken, declined_runs = A2aRest.declined, A2aRest.broken, 2


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


class CloudEventWebhook(StandardWebhook):
    """CloudEvents have no signature of their own: the test signs them as Standard Webhooks."""

    package, preset = "cloudevents", "webhooks/cloud_events"
    mode, form = "binary", " (binary)"

    def sign(self, key, body):
        from cloudevents.core.bindings import http
        from cloudevents.core.formats.json import JSONFormat
        from cloudevents.core.v1.event import CloudEvent

        event = CloudEvent({"id": key, "source": "/pay ments", "type": "paid", "time": SENT,
                            "datacontenttype": "application/json"}, json.loads(body))
        message = getattr(http, "to_" + self.mode)(event, JSONFormat())
        path, signed, body = super().sign(key, message.body.decode())
        return path, {**signed, **message.headers}, body


class StructuredCloudEvent(CloudEventWebhook):
    mode, form = "structured", " (structured)"


class SlackWebhook(Sender):
    package, preset = "slack_sdk", "webhooks/slack"

    def sign(self, key, body):
        from slack_sdk.signature import SignatureVerifier

        now = str(int(time.time()))
        signed = SignatureVerifier(self.secret).generate_signature(timestamp=now, body=body)
        return "/", {"x-slack-request-timestamp": now, "x-slack-signature": signed}, body


class AdCpWebhook(Sender):
    package, preset, secret = "adcp", "webhooks/adcp", StandardWebhook.secret
    other = "Status409"

    def call(self, world, key, amount, headers):
        from adcp.webhook_sender import WebhookSender

        async def run():
            sender = WebhookSender.from_standard_webhooks_secret(
                self.secret, key_id="k", allow_private_destinations=True,
                allowed_destination_ports=frozenset([world.port]))
            async with sender:
                return await sender.send_mcp(
                    url=world.url, task_id="t", status="working", task_type="create_media_buy",
                    operation_id="o", idempotency_key=key, message=f"pay {amount}", timestamp=SENT)

        answer = asyncio.run(run())
        if not answer.ok:
            raise type(f"Status{answer.status_code}", (Exception,), {})
        return answer.status_code


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


CLIENTS = [Stripe, StripeV2, Square, Adyen, Boto3, AzureCalls, AzureChat, AzureEmail, BackupDr,
           PayPal, Ucp, Urllib3, PyIceberg, Mcp, UcpMcp, AcpMcp, AdCp, A2a, A2aStream,
           A2aRest, A2aRestStream, StripeWebhook, StandardWebhook, SvixWebhook, CloudEventWebhook,
           StructuredCloudEvent, SlackWebhook, AdCpWebhook, TwilioWebhook, TwilioSharedKey]
