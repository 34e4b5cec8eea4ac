// Platform: store, master, emitter, handler and token manager as real processes on loopback, with
// data and logs in one folder.
//
// The system chooses ports at the first start. They stay the same over restarts, as in a real
// installation. "handler.2" is a second process of the service "handler", and so on. If there are
// several processes of the store, the others get all their addresses. "handler@1" is a process of
// cell 1, with the store "store@1".
//
// Threads: none of its own; the main thread only (see ChildProcess).

#ifndef TESTS_INTEGRATION_PLATFORM_H_
#define TESTS_INTEGRATION_PLATFORM_H_

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::integration {

// The service that `process` runs: "store" for "store.2", "handler" for "handler@1".
std::string ServiceOf(const std::string& process);

class Platform {
 public:
  struct Options {
    // Holds services/{service}/{service}.
    std::string bin;
    // Exists; data, logs and the file of keys for secrets go below it.
    std::string folder;
    // By service. "{name}" stands for the process's name, "{grpc}" for its gRPC address; that is
    // "127.0.0.1:0" at its first start.
    std::map<std::string, std::vector<std::string>> extra_arguments = {};
    // Programs by service that replace those in `bin`.
    std::map<std::string, std::string> programs = {};
    // If the services use TLS: with this AwaitReady calls them.
    std::optional<PeerTls> tls = std::nullopt;
    // If true, each process but the store has an instance file (common/process/instance_file.h).
    bool instance_files = false;
  };

  explicit Platform(Options options);
  ~Platform();  // kills processes that still run

  // Starts the services in this order and waits until each is ready to be called.
  absl::Status Start(const std::vector<std::string>& services = {"store", "master", "emitter",
                                                                 "handler"});

  // From its next start on the process reaches the store at this address, which is a proxy's. With
  // several stores: their addresses, separated by commas.
  void RouteStore(const std::string& name, std::string address);
  // From its next start on the process has these arguments, too.
  void AddArguments(const std::string& name, std::vector<std::string> arguments);

  // Sends SIGKILL. The service must run.
  void Kill(const std::string& service);
  // Sends SIGSTOP, SIGCONT… The service must run.
  void Signal(const std::string& service, int signal);
  // Starts the process again on its former ports. Waits for its first line, not until it is ready.
  absl::Status Restart(const std::string& name);
  // Sends the signal. Returns the exit code.
  absl::StatusOr<int> Terminate(const std::string& service,
                                absl::Duration timeout = absl::Seconds(20), int signal = SIGTERM);
  // False if the process has ended, by itself or not.
  bool Runs(const std::string& name);
  // The id of the running process.
  pid_t pid(const std::string& service) const;
  // Waits until /readyz answers 200.
  absl::Status AwaitReady(const std::string& service, absl::Duration timeout = absl::Seconds(30));

  // "host:port".
  const std::string& grpc_address(const std::string& service) const;
  const std::string& http_address(const std::string& service) const;
  std::string log(const std::string& service) const;
  // Writes the end of each service's log to stderr: at most `lines_max` lines.
  void ShowLogs(const std::vector<std::string>& services, size_t lines_max = 400) const;

 private:
  struct Served {
    std::string grpc = "127.0.0.1:0";
    std::string http = "127.0.0.1:0";
    std::string store;  // empty: the store's own address
    std::vector<std::string> arguments;
    std::unique_ptr<ChildProcess> process;
  };

  // The addresses of the store of the process's cell.
  std::string StoreAddresses(const std::string& name) const;
  // OK if /readyz answers 200.
  absl::Status Readyz(const std::string& service) const;

  const Options options_;
  std::map<std::string, Served> services_;
};

// Waits for what processes do: asks `done` again and again, `every` after its last answer, until it
// is true. Returns false if it is not after `timeout`.
bool Await(const std::function<bool()>& done, absl::Duration timeout = absl::Seconds(60),
           absl::Duration every = absl::Milliseconds(10));

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_PLATFORM_H_
