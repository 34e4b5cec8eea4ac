#include "tests/e2e/chaos/replicated/shaken_stores.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "tests/e2e/chaos/replicated/replica_plan.h"

namespace escapement::chaos {
namespace {

constexpr int kStores = 3;
// Longer than --drain_timeout.
constexpr absl::Duration kTerminateMax = absl::Seconds(20);
constexpr absl::Duration kCalmWithin = absl::Seconds(60);
// A link whose store has not told its port yet.
constexpr char kNowhere[] = "127.0.0.1:1";

std::string DatabaseLink(const std::string& store) { return absl::StrCat(store, ">postgres"); }
std::string ClientLink(const std::string& store) { return absl::StrCat("clients>", store); }

}  // namespace

ShakenStores::ShakenStores(CuttingProxy& proxy, integration::Platform& platform, std::string folder)
    : proxy_(proxy), platform_(platform), folder_(std::move(folder)) {
  for (int i = 1; i <= kStores; ++i) names_.push_back(i == 1 ? "store" : absl::StrCat("store.", i));
}
ShakenStores::~ShakenStores() = default;

absl::Status ShakenStores::Start() {
  ASSIGN_OR_RETURN(auto postgres, ShakenPostgres::Start());
  postgres_ = std::move(postgres);
  StoreProbes::Options probes;
  for (const std::string& store : names_) {
    ASSIGN_OR_RETURN(const auto database, proxy_.AddLink(DatabaseLink(store), postgres_->socket()));
    ASSIGN_OR_RETURN(const auto clients, proxy_.AddLink(ClientLink(store), kNowhere));
    addresses_[store] = clients;
    platform_.AddArguments(store,
                           {absl::StrCat("--replicate_through=postgresql://test@", database,
                                         "/test?sslmode=disable&gssencmode=disable"),
                            absl::StrCat("--store_id=", absl::StrReplaceAll(store, {{".", "-"}})),
                            absl::StrCat("--advertise=", clients), "--drain_timeout=5s"});
    RETURN_IF_ERROR(platform_.Restart(store));
    RETURN_IF_ERROR(proxy_.Redirect(ClientLink(store), platform_.grpc_address(store)));
    // The first store makes the log.
    if (store == names_.front()) RETURN_IF_ERROR(platform_.AwaitReady(store));
    probes.stores.emplace_back(store, platform_.grpc_address(store));
  }
  probes_ = std::make_unique<StoreProbes>(std::move(probes));
  return probes_->Start();
}

std::string ShakenStores::addresses() const {
  return absl::StrJoin(addresses_, ",",
                       [](std::string* out, const auto& store) { out->append(store.second); });
}

std::string ShakenStores::data(const std::string& store) const {
  absl::string_view suffix = store;
  absl::ConsumePrefix(&suffix, "store");
  return absl::StrCat(folder_, "/data", suffix);
}

bool ShakenStores::IsVictim(const std::string& store) const {
  return std::any_of(victims_.begin(), victims_.end(),
                     [&](const auto& victim) { return victim.second == store; });
}

std::string ShakenStores::FollowerOf(const std::string& leader) const {
  for (const std::string& store : names_) {
    if (store != leader && !IsVictim(store)) return store;
  }
  return "";
}

absl::StatusOr<std::string> ShakenStores::VictimOf(const Fault& fault) const {
  if (GroupOf(fault) == "postgres") return fault.victim;
  const std::string leader = probes_->leader();
  if (leader.empty() || IsVictim(leader)) return absl::UnavailableError("no store leads");
  const std::string follower = FollowerOf(leader);
  if (follower.empty()) return absl::UnavailableError("no store follows");
  if (GroupOf(fault) == "leaders") return leader;
  if (GroupOf(fault) == "followers") return follower;
  if (absl::StartsWith(fault.victim, "clients>")) return ClientLink(leader);
  return DatabaseLink(absl::StartsWith(fault.victim, "leader") ? leader : follower);
}

absl::Status ShakenStores::Begin(const Fault& fault) {
  std::string& victim = victims_[GroupOf(fault)];
  if (!victim.empty()) return absl::UnavailableError("the fault before has not ended");
  ASSIGN_OR_RETURN(const auto found, VictimOf(fault));
  if (fault.kind == Fault::Kind::kCut) {
    proxy_.Set(found, fault.cut);
  } else if (GroupOf(fault) == "postgres") {
    const std::string leader = probes_->leader();
    RETURN_IF_ERROR(postgres_->Begin(fault));
    if (fault.kind == Fault::Kind::kPromote) RETURN_IF_ERROR(RedirectToPrimary(""));
    if (fault.kind == Fault::Kind::kSplit)
      RETURN_IF_ERROR(RedirectToPrimary(fault.reset ? leader : FollowerOf(leader)));
  } else {
    RETURN_IF_ERROR(BeginStore(fault, found));
  }
  victim = found;
  return absl::OkStatus();
}

absl::Status ShakenStores::RedirectToPrimary(const std::string& left_behind) {
  for (const std::string& store : names_) {
    if (store != left_behind)
      RETURN_IF_ERROR(proxy_.Redirect(DatabaseLink(store), postgres_->socket()));
  }
  return absl::OkStatus();
}

absl::Status ShakenStores::BeginStore(const Fault& fault, const std::string& store) {
  if (!platform_.Runs(store)) {
    return absl::InternalError(
        absl::StrCat(store, " has ended by itself; see ", platform_.log(store)));
  }
  switch (fault.kind) {
    case Fault::Kind::kKill:
    case Fault::Kind::kForget:
      platform_.Kill(store);
      break;
    case Fault::Kind::kPause:
      platform_.Signal(store, SIGSTOP);
      break;
    default:
      platform_.Signal(store, SIGTERM);
  }
  return absl::OkStatus();
}

absl::Status ShakenStores::End(const Fault& fault) {
  const std::string victim = std::exchange(victims_[GroupOf(fault)], "");
  if (fault.kind == Fault::Kind::kCut) {
    proxy_.Set(victim, Cut::kNone, fault.reset);
    return absl::OkStatus();
  }
  if (fault.kind == Fault::Kind::kSplit) RETURN_IF_ERROR(RedirectToPrimary(""));
  if (GroupOf(fault) == "postgres") return postgres_->End(fault);
  return EndStore(fault, victim);
}

absl::Status ShakenStores::EndStore(const Fault& fault, const std::string& store) {
  if (fault.kind == Fault::Kind::kPause) {
    platform_.Signal(store, SIGCONT);
    return absl::OkStatus();
  }
  if (fault.kind == Fault::Kind::kTerminate) {
    // The store may be unable to hand over, but it must end.
    if (const auto code = platform_.Terminate(store, kTerminateMax); !code.ok())
      return absl::InternalError(absl::StrCat(store, " does not end: ", code.status().message()));
  }
  if (fault.kind == Fault::Kind::kForget) {
    std::error_code error;
    std::filesystem::remove_all(data(store), error);
    if (error) return absl::InternalError(absl::StrCat("cannot delete: ", error.message()));
  }
  return platform_.Restart(store);
}

absl::Status ShakenStores::Calm() { return postgres_->AwaitSynced(kCalmWithin); }

}  // namespace escapement::chaos
