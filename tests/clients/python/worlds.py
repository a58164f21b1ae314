"""Worlds of the server, and the cases that every client has."""

import asyncio
import concurrent.futures
import importlib.metadata
import itertools
import json
import sys
import traceback
import urllib.error
import urllib.request

PORT = int(sys.argv[1])
KEYS = itertools.count()


class World:
    """A preset with a handler and a wire by plan."""

    def __init__(self, preset, answers, **plan):
        plan.update(preset=preset, answers=answers)
        self.port = command("worlds", plan)["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.itself = f"http://127.0.0.1:{PORT}/worlds/{self.port}"

    def counts(self):
        return command(f"worlds/{self.port}")

    def next(self):
        """Lets the handler send its next event."""
        command(f"worlds/{self.port}", {})


def command(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/{path}", data, headers)
    try:
        text = urllib.request.urlopen(request).read()
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()) from error
    return json.loads(text or b"null")


def new_key():
    """Returns a UUID of version 7, which every preset takes."""
    return f"0190f3c2-6f5d-7cc3-98c4-{next(KEYS):012x}"


def outcome(call):
    """Returns what a call gave: a result, or the class of its error."""
    try:
        return "ok", call()
    # Each SDK has its own classes; adcp cancels its caller when the connection ends.
    except (Exception, asyncio.CancelledError) as error:
        return "error", type(error).__name__


class Client:
    """A client of a preset: how it calls, and what it has to make of answers.

    `call(world, key, amount, headers)` returns what identifies the effect, and raises the SDK's own
    errors.
    """

    language = "Python"
    arguments, free = [], {}
    # What the answer to another body under the key has to be for the caller.
    other = None
    # How often the handler runs for a request that it declines twice.
    declined_runs = 1
    # Follows the name of the package in the table, where its calls have two forms.
    form = ""
    # Cases that do not hold, with the reason; `*` is every case.
    known = {}

    def __init__(self):
        self.version = importlib.metadata.version(self.package)

    def world(self, *answers, **plan):
        plan = {"arguments": self.arguments, "free": self.free, **plan}
        return World(self.preset, answers or (self.ok,), **plan)

    def send(self, world, key, amount=5, headers=None):
        return outcome(lambda: self.call(world, key, amount, headers or {}))

    def insist(self, world, key):
        """Sends as the SDK does, and once more where it gives up."""
        first = self.send(world, key)
        return first if first[0] == "ok" else self.send(world, key)

    def one_effect(self, world, *results, runs=1):
        assert results[0][0] == "ok", f"{results}"
        assert len(set(results)) == 1, f"{results}"
        counts = world.counts()
        assert counts["runs"] == runs, f"{counts}"
        return counts

    def case_repeat(self):
        world, key = self.world(), new_key()
        self.one_effect(world, self.send(world, key), self.send(world, key))

    def case_lost_answer(self):
        world = self.world(wire=["lose"])
        counts = self.one_effect(world, self.insist(world, new_key()))
        assert counts["requests"] == 2, f"{counts}"

    def case_repeated_by_a_proxy(self):
        world = self.world(wire=["repeat"])
        self.one_effect(world, self.send(world, new_key()))

    def case_late(self):
        world, key = self.world(wire=["delay"]), new_key()
        self.one_effect(world, self.send(world, key), self.send(world, key))

    def case_concurrent(self):
        world, key = self.world({**self.ok, "requests": 2}), new_key()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            sent = [pool.submit(self.insist, world, key) for _ in range(2)]
            self.one_effect(world, *[each.result() for each in sent])

    def case_other_parameters(self):
        world, key = self.world(), new_key()
        first = self.send(world, key)
        other = self.send(world, key, amount=6)
        assert other == ("error", self.other), f"{other}"
        self.one_effect(world, first)

    def case_failure_once(self):
        world = self.world(self.broken, self.ok)
        self.one_effect(world, self.insist(world, new_key()), runs=2)

    def case_decline(self):
        world, key = self.world(self.declined, self.ok), new_key()
        first, second = self.send(world, key), self.send(world, key)
        assert first[0] == "error", f"{first}"
        expected = first if self.declined_runs == 1 else ("ok", second[1])
        assert second == expected, f"{second}"
        counts = world.counts()
        assert counts["runs"] == self.declined_runs, f"{counts}"

    def case_other_headers(self):
        world, key = self.world(), new_key()
        trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        again = self.send(world, key, headers={**trace, "x-attempt": "2"})
        self.one_effect(world, self.send(world, key), again)

    case_long_running = None

    def ends_as_it_ended(self):
        """The call and its repetition wait for one operation, and end as it ended."""
        for ended, expected in (self.done, "ok"), (self.failed, "error"):
            world, key = self.world(free={self.polled: ended}), new_key()
            first, again = self.send(world, key), self.send(world, key)
            assert first == again and first[0] == expected, f"{first}, {again}"
            assert world.counts()["runs"] == 1, f"{world.counts()}"

    def report(self):
        """Runs every case, and prints a line of JSON for each."""
        for name in [name for name in dir(self) if name.startswith("case_")]:
            if getattr(self, name) is None:  # No case of this client.
                continue
            case, result, why = name[len("case_"):].replace("_", " "), "ok", ""
            known = self.known.get(case, self.known.get("*"))
            try:
                getattr(self, name)()
                if known:
                    result, why = "failed", f"it holds, against what is known: {known}"
            except Exception as error:
                result, why = ("known", known) if known else ("failed", described(error))
            line = {"language": self.language, "preset": self.preset, "version": self.version}
            line.update(client=self.package + self.form, case=case, result=result, why=why)
            print(json.dumps(line), flush=True)


def described(error):
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"


class Sender(Client):
    """A provider's own signature: `sign(key, body)` returns a path, headers and a body."""

    url = ""
    secret = "secret"
    ok = declined = {}
    broken = {"status": 500}
    other = "HTTPError"
    kind = "application/json"
    case_decline = case_concurrent = case_other_headers = None

    @property
    def arguments(self):
        return [self.secret, self.url]

    def call(self, world, key, amount, headers):
        path, signed, body = self.sign(key, self.body(key, amount))
        signed = {"content-type": self.kind, **signed, **headers}
        request = urllib.request.Request(world.url + path, body.encode(), signed)
        return urllib.request.urlopen(request).status

    def body(self, key, amount):
        return json.dumps({"id": key, "type": "ping", "created": amount, "event_time": amount,
                           "event_id": key, "event": {"type": "m"}})

    def case_forged(self):
        world, key = self.world(), new_key()
        self.secret = self.secret[:-1] + ("B" if self.secret[-1] == "A" else "A")
        forged = self.send(world, key)
        assert forged[0] == "error" and world.counts()["runs"] == 0, f"{forged}"
        self.secret = type(self).secret
