#include "tests/integration/platform.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/tls/testing/tls_client.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace {

// The file with the keys that seal secrets. Made at the first call.
std::string SecretKeysFile(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/secret.keys");
  if (!std::filesystem::exists(path))
    std::ofstream(path) << "test: " << absl::Base64Escape(std::string(32, 's')) << "\n";
  return path;
}

// "@1" of a process of cell 1.
std::string CellSuffix(const std::string& name) {
  return name.substr(std::min(name.find('@'), name.size()));
}

}  // namespace

std::string ServiceOf(const std::string& process) {
  return process.substr(0, process.find_first_of(".@"));
}

Platform::Platform(Options options) : options_(std::move(options)) {}
Platform::~Platform() = default;

absl::Status Platform::Start(const std::vector<std::string>& services) {
  for (const std::string& service : services) {
    RETURN_IF_ERROR(Restart(service));
    RETURN_IF_ERROR(AwaitReady(service));
  }
  return absl::OkStatus();
}

void Platform::Kill(const std::string& service) { services_.at(service).process->Kill(); }

void Platform::Signal(const std::string& service, int signal) {
  services_.at(service).process->Signal(signal);
}

absl::Status Platform::Restart(const std::string& name) {
  Served& served = services_[name];
  const std::string service = ServiceOf(name);
  std::vector<std::string> arguments = {absl::StrCat("--listen=", served.grpc),
                                        absl::StrCat("--http_listen=", served.http)};
  if (service == "store" || service == "standalone") {
    arguments.push_back(
        absl::StrCat("--data_dir=", options_.folder, "/data", name.substr(service.size())));
    if (const std::string cell = CellSuffix(name); !cell.empty())
      arguments.push_back(absl::StrCat("--cell=", cell.substr(1)));
  } else {
    arguments.push_back(
        absl::StrCat("--store=", served.store.empty() ? StoreAddresses(name) : served.store));
  }
  if (options_.instance_files && service != "store")
    arguments.push_back(absl::StrCat("--instance_file=", options_.folder, "/", name, ".instance"));
  if (service == "master" || service == "handler" || service == "standalone")
    arguments.push_back(absl::StrCat("--secret_keys_file=", SecretKeysFile(options_.folder)));
  const auto extra = options_.extra_arguments.find(service);
  if (extra != options_.extra_arguments.end()) {
    for (const std::string& argument : extra->second) {
      arguments.push_back(
          absl::StrReplaceAll(argument, {{"{name}", name}, {"{grpc}", served.grpc}}));
    }
  }
  arguments.insert(arguments.end(), served.arguments.begin(), served.arguments.end());
  const auto program = options_.programs.find(service);
  ASSIGN_OR_RETURN(auto process,
                   ChildProcess::Start({.program = program != options_.programs.end()
                                                       ? program->second
                                                       : absl::StrCat(options_.bin, "/services/",
                                                                      service, "/", service),
                                        .arguments = std::move(arguments),
                                        .log = log(name)}));
  served.process = std::move(process);
  const auto line = served.process->AwaitLine("listening ", absl::Seconds(30));
  if (!line.ok()) {
    return absl::Status(line.status().code(),
                        absl::StrCat(name, ": ", line.status().message(), "; see ", log(name)));
  }
  for (absl::string_view word : absl::StrSplit(*line, ' ')) {
    if (absl::ConsumePrefix(&word, "grpc=")) served.grpc = std::string(word);
    if (absl::ConsumePrefix(&word, "http=")) served.http = std::string(word);
  }
  return absl::OkStatus();
}

std::string Platform::StoreAddresses(const std::string& of) const {
  std::vector<std::string> addresses;
  for (const auto& [name, served] : services_) {
    if (ServiceOf(name) == "store" && CellSuffix(name) == CellSuffix(of))
      addresses.push_back(served.grpc);
  }
  return absl::StrJoin(addresses, ",");
}

absl::StatusOr<int> Platform::Terminate(const std::string& service, absl::Duration timeout,
                                        int signal) {
  ChildProcess& process = *services_.at(service).process;
  process.Signal(signal);
  return process.Wait(timeout);
}

void Platform::RouteStore(const std::string& name, std::string address) {
  services_[name].store = std::move(address);
}

void Platform::AddArguments(const std::string& name, std::vector<std::string> arguments) {
  services_[name].arguments = std::move(arguments);
}

bool Platform::Runs(const std::string& name) {
  const auto served = services_.find(name);
  return served != services_.end() && served->second.process != nullptr &&
         absl::IsDeadlineExceeded(served->second.process->Wait(absl::ZeroDuration()).status());
}

absl::Status Platform::AwaitReady(const std::string& service, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::string last;
  do {
    const absl::Status status = Readyz(service);
    if (status.ok()) return absl::OkStatus();
    last = status.ToString();
    // Waits a little before the next try.
    poll(nullptr, 0, 20);
  } while (absl::Now() < deadline);
  return absl::DeadlineExceededError(absl::StrCat(service, " did not become ready: ", last));
}

absl::Status Platform::Readyz(const std::string& service) const {
  const std::string& address = http_address(service);
  if (options_.tls.has_value()) {
    ASSIGN_OR_RETURN(const auto answer, testing::TlsGet(address, *options_.tls, "/readyz"));
    return absl::StartsWith(answer, "HTTP/1.1 200 ") ? absl::OkStatus()
                                                     : absl::UnavailableError(answer);
  }
  ASSIGN_OR_RETURN(const auto answer, HttpGet(address, "/readyz"));
  return answer.status == 200 ? absl::OkStatus() : absl::UnavailableError(answer.body);
}

pid_t Platform::pid(const std::string& service) const {
  return services_.at(service).process->pid();
}
const std::string& Platform::grpc_address(const std::string& service) const {
  return services_.at(service).grpc;
}
const std::string& Platform::http_address(const std::string& service) const {
  return services_.at(service).http;
}
std::string Platform::log(const std::string& service) const {
  return absl::StrCat(options_.folder, "/", service, ".log");
}

void Platform::ShowLogs(const std::vector<std::string>& services, size_t lines_max) const {
  for (const std::string& service : services) {
    std::ifstream in(log(service));
    if (!in) continue;
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
    const size_t shown = std::min(lines.size(), lines_max);
    std::cerr << "--- " << service << ", the last " << shown << " of " << lines.size()
              << " lines\n";
    for (size_t i = lines.size() - shown; i < lines.size(); ++i) std::cerr << lines[i] << "\n";
  }
}

bool Await(const std::function<bool()>& done, absl::Duration timeout, absl::Duration every) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!done()) {
    if (absl::Now() > deadline) return false;
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(every)));
  }
  return true;
}

}  // namespace escapement::integration
