#include "tests/bench/beds/platform_bed.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/auth/key_directory.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/testing/tls_client.h"
#include "escapement/v1/cell_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/bench/figures/machine.h"
#include "tests/integration/probes.h"

namespace escapement::bench {

namespace {

constexpr absl::Duration kAcceptedMax = absl::Seconds(30);
constexpr absl::Duration kPoll = absl::Milliseconds(100);

}  // namespace

std::shared_ptr<grpc::Channel> NewChannelOf(const Caller& caller, const std::string& address) {
  return NewChannel(address, {.tls = caller.tls});
}

void AddCredentials(const Caller& caller, grpc::ClientContext& context) {
  if (!caller.api_key.empty())
    context.AddMetadata("authorization", absl::StrCat("Bearer ", caller.api_key));
}

absl::Status AwaitAccepted(const Caller& caller, const std::string& address) {
  const auto stub = v1::ScheduleService::NewStub(NewChannelOf(caller, address));
  v1::GetScheduleRequest request;
  request.set_name("tenants/default/schedules/none");
  const absl::Time deadline = absl::Now() + kAcceptedMax;
  while (true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(deadline));
    AddCredentials(caller, context);
    v1::Schedule schedule;
    const grpc::Status status = stub->GetSchedule(&context, request, &schedule);
    // The schedule does not exist, and only an accepted caller hears so.
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return absl::OkStatus();
    if (absl::Now() > deadline) return FromGrpcStatus(status);
    absl::SleepFor(kPoll);
  }
}

Security::Security(const std::string& folder) : key_file_(folder + "/bootstrap.key") {
  const testing::TestCa authority;
  const std::string ca = folder + "/ca.pem";
  testing::WriteFile(ca, authority.pem());
  // Services know each other by the name escapement-service.
  const testing::IdentityFiles service = testing::WriteIdentity(
      authority.Issue(2, std::string("DNS:escapement-service,") + testing::TestCa::kServerNames),
      folder, "tls");
  client_ = {.tls = PeerTls{.ca = ca}, .api_key = auth::NewApiKey().ToString()};
  testing::WriteFile(key_file_, client_.api_key);
  flags_ = {"--tls_cert=" + service.cert, "--tls_key=" + service.key, "--tls_service_ca=" + ca,
            "--peer_ca=" + ca, "--require_credentials"};
}

std::vector<std::string> Security::FlagsOf(const std::string& service) const {
  std::vector<std::string> flags = flags_;
  if (service == "master" || service == "standalone")
    flags.push_back("--bootstrap_key_file=" + key_file_);
  return flags;
}

namespace {

constexpr absl::Duration kStopMax = absl::Seconds(60);

std::vector<std::string> NamesOf(const PlatformBed::Options& options) {
  if (!options.separate) return {"standalone"};
  std::vector<std::string> names = {"store", "master", "emitter", "token_manager", "handler"};
  for (int i = 2; i <= options.emitters; ++i) names.push_back(absl::StrCat("emitter.", i));
  for (int i = 2; i <= options.handlers; ++i) names.push_back(absl::StrCat("handler.", i));
  for (int cell = 1; cell < options.cells; ++cell) {
    for (const char* service : {"store", "emitter", "token_manager", "handler"})
      names.push_back(absl::StrCat(service, "@", cell));
  }
  return names;
}

// Makes the store at `address` a cell of the platform of that master.
absl::Status CreateCell(const std::string& master, absl::string_view cell,
                        const std::string& address) {
  const auto stub = v1::CellService::NewStub(NewChannelOf({}, master));
  v1::CreateCellRequest request;
  request.set_cell_id(std::string(cell));
  request.mutable_cell()->set_store_address(address);
  grpc::ClientContext context;
  v1::Cell created;
  return FromGrpcStatus(stub->CreateCell(&context, request, &created));
}

std::string Made(const std::string& folder) {
  std::filesystem::create_directories(folder);
  return folder;
}

std::optional<Security> SecurityOf(const PlatformBed::Options& options) {
  if (!options.secured) return std::nullopt;
  return Security(Made(options.folder));
}

// The arguments by service, with those of its security.
std::map<std::string, std::vector<std::string>> ArgumentsOf(
    const PlatformBed::Options& options, const std::optional<Security>& security) {
  auto arguments = options.extra_arguments;
  if (!security.has_value()) return arguments;
  for (const char* service :
       {"standalone", "store", "master", "emitter", "token_manager", "handler"}) {
    const std::vector<std::string> flags = security->FlagsOf(service);
    arguments[service].insert(arguments[service].end(), flags.begin(), flags.end());
  }
  return arguments;
}

// The sum of a metric's samples in the text of /metrics.
double SumOf(const std::string& text, const std::string& name) {
  double total = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, name) || line.empty()) continue;
    if (line[0] != ' ' && line[0] != '{') continue;
    double value = 0;
    if (absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) total += value;
  }
  return total;
}

}  // namespace

PlatformBed::PlatformBed(const Options& options)
    : options_(options),
      mode_(options.separate ? "separate" : "standalone"),
      names_(NamesOf(options)),
      security_(SecurityOf(options)),
      platform_({.bin = options.bin,
                 .folder = Made(options.folder),
                 .extra_arguments = ArgumentsOf(options, security_),
                 .tls = caller().tls}) {
  for (const auto& [process, arguments] : options.process_arguments)
    platform_.AddArguments(process, arguments);
}

absl::Status PlatformBed::Start() {
  for (const std::string& name : names_) {
    RETURN_IF_ERROR(platform_.Start({name}));
    absl::string_view cell = name;
    if (!absl::ConsumePrefix(&cell, "store@")) continue;
    const absl::Status created = CreateCell(front("master"), cell, platform_.grpc_address(name));
    if (!created.ok() && !absl::IsAlreadyExists(created)) return created;
  }
  if (!security_.has_value()) return absl::OkStatus();
  return AwaitAccepted(security_->client(), front("master"));
}

absl::Status PlatformBed::Stop() {
  for (auto name = names_.rbegin(); name != names_.rend(); ++name) {
    ASSIGN_OR_RETURN(const auto code, platform_.Terminate(*name, kStopMax));
    if (code != 0) return absl::InternalError(absl::StrCat(*name, " ended with ", code));
  }
  return absl::OkStatus();
}

void PlatformBed::KillAll() {
  for (const std::string& name : names_) platform_.Kill(name);
}

const std::string& PlatformBed::front(const std::string& service) const {
  return platform_.grpc_address(options_.separate ? service : "standalone");
}

const std::string& PlatformBed::http_front(const std::string& service) const {
  return platform_.http_address(options_.separate ? service : "standalone");
}

absl::StatusOr<double> PlatformBed::Metric(const std::string& service,
                                           const std::string& name) const {
  double total = 0;
  for (const std::string& process : names_) {
    if (options_.separate && integration::ServiceOf(process) != service) continue;
    const auto value = MetricOf(process, name);
    if (!value.ok()) return value;
    total += *value;
  }
  return total;
}

absl::StatusOr<double> PlatformBed::MetricOf(const std::string& process,
                                             const std::string& name) const {
  ASSIGN_OR_RETURN(const auto page, Page(process, "/metrics"));
  return SumOf(page, name);
}

absl::StatusOr<std::string> PlatformBed::Page(const std::string& process,
                                              const std::string& path) const {
  const std::string& address = platform_.http_address(process);
  if (!security_.has_value()) {
    ASSIGN_OR_RETURN(const auto answer, integration::HttpGet(address, path));
    return answer.body;
  }
  const auto answer = testing::TlsGet(address, *security_->client().tls, path);
  if (!answer.ok()) return answer;
  if (!absl::StartsWith(*answer, "HTTP/1.1 200 ")) return absl::UnavailableError(*answer);
  return answer->substr(std::min(answer->size(), answer->find("\r\n\r\n")));
}

double PlatformBed::CpuSeconds() const {
  double seconds = 0;
  for (const std::string& name : names_) seconds += CpuSeconds(name);
  return seconds;
}

double PlatformBed::CpuSeconds(const std::string& name) const {
  return CpuSecondsOf(platform_.pid(name));
}

uint64_t PlatformBed::ResidentBytes() const {
  uint64_t bytes = 0;
  for (const std::string& name : names_) bytes += ResidentBytes(name);
  return bytes;
}

uint64_t PlatformBed::ResidentBytes(const std::string& name) const {
  return ResidentBytesOf(platform_.pid(name));
}

absl::Status PlatformBed::AwaitIdle(double share, absl::Duration timeout) const {
  return bench::AwaitIdle([this] { return CpuSeconds(); }, share, timeout);
}

}  // namespace escapement::bench
