#include "tests/e2e/chaos/shaken_platform.h"

#include <signal.h>

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace escapement::chaos {
namespace {

constexpr absl::string_view kServices[] = {"master", "emitter", "handler", "token_manager"};
// Longer than --drain_timeout.
constexpr absl::Duration kTerminateMax = absl::Seconds(20);

// Leases are shorter than the longest pause, so some pauses outlast them and some do not.
std::vector<std::string> LeaseFlags() {
  return {"--lease_ttl=2s", "--lease_renew_every=400ms", "--drain_timeout=5s"};
}

integration::Platform::Options PlatformOptions(const ShakenPlatform::Options& options) {
  integration::Platform::Options platform;
  platform.bin = options.bin;
  platform.folder = options.folder;
  for (absl::string_view service : kServices)
    platform.extra_arguments[std::string(service)] = LeaseFlags();
  platform.extra_arguments["master"] = {"--drain_timeout=5s"};
  platform.extra_arguments["store"] = {absl::StrCat("--commit_log=", options.folder, "/commits"),
                                       "--store_lease_ttl=2s", "--partitions=5", "--queue_shards=4",
                                       "--policy_shards=3"};
  platform.programs["store"] = absl::StrCat(options.bin, "/tests/e2e/chaos/logging_store");
  return platform;
}

}  // namespace

ShakenPlatform::ShakenPlatform(Options options)
    : options_(std::move(options)), platform_(PlatformOptions(options_)) {}
ShakenPlatform::~ShakenPlatform() = default;

std::string ShakenPlatform::stores() const {
  return stores_ != nullptr ? stores_->addresses() : platform_.grpc_address("store");
}

absl::Status ShakenPlatform::StartStore() {
  if (!options_.replicated) {
    processes_ = {"store"};
    return platform_.Start({"store"});
  }
  stores_ = std::make_unique<ShakenStores>(*proxy_, platform_, options_.folder);
  processes_ = stores_->names();
  return stores_->Start();
}

absl::Status ShakenPlatform::Start() {
  std::filesystem::create_directories(commits());
  ASSIGN_OR_RETURN(auto proxy, CuttingProxy::Start());
  proxy_ = std::move(proxy);
  RETURN_IF_ERROR(StartStore());
  for (absl::string_view service : kServices) {
    for (const char* which : {"", ".2"}) {
      const std::string process = absl::StrCat(service, which);
      if (stores_ != nullptr) {
        platform_.RouteStore(process, stores());
      } else {
        const std::string link = absl::StrCat(process, ">store");
        ASSIGN_OR_RETURN(auto address, proxy_->AddLink(link, stores()));
        platform_.RouteStore(process, address);
        links_.push_back(link);
      }
      RETURN_IF_ERROR(platform_.Start({process}));
      processes_.push_back(process);
    }
  }
  for (int i = 1; i <= 2; ++i) {
    ASSIGN_OR_RETURN(auto address,
                     proxy_->AddLink(absl::StrCat("consumer.", i), options_.consumer));
    links_.push_back(absl::StrCat("consumer.", i));
    consumers_.push_back(address);
  }
  return absl::OkStatus();
}

absl::Status ShakenPlatform::CheckAlive(const std::string& process) {
  if (platform_.Runs(process)) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(process, " has ended by itself; see ", platform_.log(process)));
}

absl::Status ShakenPlatform::Begin(const Fault& fault) {
  if (stores_ != nullptr) return stores_->Begin(fault);
  if (fault.kind == Fault::Kind::kCut) {
    proxy_->Set(fault.victim, fault.cut);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckAlive(fault.victim));
  switch (fault.kind) {
    case Fault::Kind::kKill:
      platform_.Kill(fault.victim);
      break;
    case Fault::Kind::kPause:
      platform_.Signal(fault.victim, SIGSTOP);
      break;
    default:
      platform_.Signal(fault.victim, SIGTERM);
  }
  return absl::OkStatus();
}

absl::Status ShakenPlatform::End(const Fault& fault) {
  if (stores_ != nullptr) return stores_->End(fault);
  switch (fault.kind) {
    case Fault::Kind::kCut:
      // Resets connections to consumers. Otherwise bytes would arrive long after they were sent,
      // and look as if they had been sent late.
      proxy_->Set(fault.victim, Cut::kNone,
                  fault.reset || absl::StartsWith(fault.victim, "consumer."));
      return absl::OkStatus();
    case Fault::Kind::kPause:
      platform_.Signal(fault.victim, SIGCONT);
      return absl::OkStatus();
    case Fault::Kind::kTerminate:
      // The process may be unable to drain, but it must end.
      if (const auto code = platform_.Terminate(fault.victim, kTerminateMax); !code.ok())
        return absl::InternalError(
            absl::StrCat(fault.victim, " does not end: ", code.status().message()));
      break;
    default:
      break;
  }
  return platform_.Restart(fault.victim);
}

absl::Status ShakenPlatform::Stop() {
  if (stores_ != nullptr) stores_->StopProbes();
  for (auto process = processes_.rbegin(); process != processes_.rend(); ++process) {
    RETURN_IF_ERROR(CheckAlive(*process));
    const auto code = platform_.Terminate(*process, kTerminateMax);
    if (!code.ok() || *code != 0) {
      return absl::InternalError(absl::StrCat(
          *process, " ended with ", code.ok() ? absl::StrCat(*code) : code.status().ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace escapement::chaos
