"""What the platform of these tests does: deliveries by HTTP and gRPC, retries, dead letters, a full policy, a target that is down."""


class Load:
    """Two consumers. `steady` takes what it gets, by HTTP and gRPC; `other` is the one that an incident is about."""

    def __init__(self, platform):
        self.platform = platform
        self.steady_http, self.steady_grpc = platform.start_receiver("steady")
        self.other_http, self.other_grpc = platform.start_receiver("other")

    def start(self):
        """Schedules that fire each second, so that each series has values within seconds."""
        self.schedule("steady-http", 20, "--http", f"http://{self.steady_http}/")
        self.schedule("steady-grpc", 20, "--grpc", self.steady_grpc)
        # An answer after a second is too late: a target that stops answering is seen within seconds.
        self.schedule("other", 10, "--http", f"http://{self.other_http}/", "--delivery-timeout", "1s", "--retry-keep")

    def start_policy(self):
        """A policy with room for what its consumer gets."""
        self.platform.escctl("policy", "create", "gentle", "--max-concurrent", "5", "--hold-timeout", "1h", "--on-expiry", "HOLD")
        self.schedule("gentle", 4, "--http", f"http://{self.other_http}/work/100/", "--policy", "gentle", "--completion",
                      "on-release")

    def start_failures(self):
        """What a demo has besides: an event that fails and is retried, dead letters, more events than a policy lets go, a dead target."""
        self.schedule("retried", 2, "--http", f"http://{self.steady_http}/fail/1/", "--min-backoff", "0.1s", "--retry-keep")
        self.schedule("failing", 2, "--http", f"http://{self.steady_http}/status/503/", "--max-attempts", "1")
        self.platform.escctl("policy", "create", "narrow", "--max-concurrent", "2")
        self.schedule("narrow", 10, "--http", f"http://{self.steady_http}/work/200/", "--policy", "narrow", "--completion",
                      "on-release")
        self.schedule("nobody", 30, "--http", "http://127.0.0.1:1/")

    def schedule(self, name, events, *flags):
        self.platform.escctl("schedule", "create", name, "--cron", "* * * * * *", "--event-count", str(events), *flags)
