// Consumer: the receiver of tests/fixtures as a process of its own, and access to its notes.

#ifndef TESTS_E2E_CONSUMER_H_
#define TESTS_E2E_CONSUMER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/e2e/judge.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::e2e {

// The counts of a worker (tests/fixtures/worker.h). Times are in microseconds since 1970.
struct WorkNote {
  uint64_t distinct = 0;
  uint64_t ended = 0;
  uint64_t answered = 0;  // completions that were answered
  int64_t out = 0;
  int64_t out_max = 0;
  double out_event_seconds = 0;
  int64_t first_wall_micros = 0;
  int64_t last_wall_micros = 0;
};

class Consumer {
 public:
  static absl::StatusOr<std::unique_ptr<Consumer>> Start(
      const std::string& program, const std::string& log,
      const std::vector<std::string>& arguments = {});

  // URIs for targets.
  std::string http_uri(absl::string_view path) const;
  std::string grpc_uri() const;

  // Number of distinct event ids from sources that begin with `prefix`.
  absl::StatusOr<uint64_t> CountEvents(absl::string_view prefix) const;
  // Only for a receiver with --worker.
  absl::StatusOr<WorkNote> AskWork() const;
  // Every arrival from those sources, in order.
  absl::StatusOr<std::vector<Arrival>> ListArrivals(absl::string_view prefix) const;

 private:
  Consumer(std::unique_ptr<integration::ChildProcess> process, std::string http, std::string grpc);
  std::unique_ptr<integration::ChildProcess> process_;
  const std::string http_;  // "127.0.0.1:port"
  const std::string grpc_;
};

}  // namespace escapement::e2e

#endif  // TESTS_E2E_CONSUMER_H_
