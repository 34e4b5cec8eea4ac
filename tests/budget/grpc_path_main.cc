// grpc_path_main RECEIVER EVENTS: the handler's whole path in true time, over RocksKvStore and a
// gRPC stream to tests/fixtures/receiver (a process that is not counted). It is for profiles only,
// since threads and the machine decide the size of batches.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/handler/delivery/grpc/grpc_transport.h"
#include "services/handler/service/handler_service.h"
#include "tests/budget/mark.h"
#include "tests/budget/rocks_rig.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::budget {
namespace {

// Starts the receiver. Returns the address of its gRPC port.
std::string StartReceiver(const std::string& program,
                          std::unique_ptr<integration::ChildProcess>* process) {
  auto started =
      integration::ChildProcess::Start({.program = program, .arguments = {"--record=false"}});
  if (!started.ok()) return "";
  *process = *std::move(started);
  const auto line = (*process)->AwaitLine("grpc ", absl::Seconds(60));
  return line.ok() ? absl::StrCat("127.0.0.1:", line->substr(5)) : "";
}

int Run(const std::string& receiver, uint64_t events) {
  std::unique_ptr<integration::ChildProcess> process;
  const std::string address = StartReceiver(receiver, &process);
  if (address.empty()) return 1;
  RocksRig rig;
  for (auto& batch : OneOffGroups(events, rig.runtime().clock().WallNow() - absl::Seconds(1),
                                  rig.store().info().layout.queue_shards, address, false))
    rig.Commit(std::move(batch));
  handler::GrpcTransport transport{fixtures::OnLoopback<handler::GrpcTransport>()};
  // Sends one delivery first, so that the channel exists.
  const auto first = std::make_shared<fixtures::CollectingSink>();
  transport.Send(fixtures::MakeAttempts({.uri = address}, 0, 1), first);
  if (!first->Await(1)) return 1;
  // Under callgrind everything takes fifty times as long.
  handler::HandlerOptions options;
  options.lease_ttl = absl::Seconds(60);
  handler::HandlerService service(options, rig.store(), rig.runtime(), transport);
  escapement_budget_mark();
  service.Start();
  const absl::Time deadline = absl::Now() + absl::Minutes(5);
  while (service.metrics().succeeded.Value() < events && absl::Now() < deadline)
    absl::SleepFor(absl::Milliseconds(10));
  escapement_budget_mark();
  return service.metrics().succeeded.Value() == events ? 0 : 1;
}

}  // namespace
}  // namespace escapement::budget

int main(int argc, char** argv) {
  // The platform's processes do the same.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const uint64_t events = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (events > 0) return escapement::budget::Run(argv[1], events);
  std::fprintf(stderr, "grpc_path_main RECEIVER EVENTS\n");
  return 2;
}
