#include "tests/e2e/chaos/replicated/store_probes.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/rpc/channel.h"
#include "tests/integration/platform.h"

namespace escapement::chaos {
namespace {

// More calls than a pause of 10 s gathers. A store that is down fails its calls at once.
constexpr int kOpenMax = 2000;
constexpr absl::Duration kLeaderWithin = absl::Seconds(1);
constexpr absl::Duration kStartWithin = absl::Seconds(30);

}  // namespace

struct StoreProbes::Probe {
  Probe(std::string name, const std::string& address)
      : name(std::move(name)), store(NewChannel(address)) {}

  const std::string name;
  uint64_t session = 0;
  uint64_t number = 0;  // the last commit's
  int open = 0;         // under the probes' lock
  kv::GrpcKvStore store;
};

StoreProbes::StoreProbes(Options options) : options_(std::move(options)) {
  for (const auto& [name, address] : options_.stores)
    probes_.push_back(std::make_unique<Probe>(name, address));
}
StoreProbes::~StoreProbes() { Stop(); }

absl::Status StoreProbes::Start() {
  // Any store that leads opens the sessions of all.
  const auto open = [](kv::KvStore& store) {
    absl::Notification done;
    uint64_t session = 0;
    store.OpenSession(0, 0, [&](absl::StatusOr<kv::SessionInfo> info) {
      if (info.ok()) session = info->session;
      done.Notify();
    });
    done.WaitForNotification();
    return session;
  };
  for (const auto& probe : probes_) {
    const bool opened = integration::Await(
        [&] {
          for (const auto& asked : probes_) {
            if (probe->session == 0) probe->session = open(asked->store);
          }
          return probe->session != 0;
        },
        kStartWithin);
    if (!opened) return absl::UnavailableError("no store opens a session");
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void StoreProbes::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  probes_.clear();
}

void StoreProbes::Run() {
  for (uint64_t round = 1;; ++round) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopping_), options_.every)) return;
    }
    for (const auto& probe : probes_) {
      {
        absl::MutexLock lock(&mu_);
        if (probe->open >= kOpenMax) continue;
        ++probe->open;
      }
      if (round % static_cast<uint64_t>(options_.reads_per_commit + 1) == 0) {
        Commit(*probe);
      } else {
        Read(*probe);
      }
    }
  }
}

void StoreProbes::Read(Probe& probe) {
  std::vector<kv::Key> keys;
  for (const auto& [name, address] : options_.stores)
    keys.push_back({kv::ColumnFamily::kMeta, ProbeKey(name)});
  const absl::Time called = absl::Now();
  probe.store.MultiGet(std::move(keys), [this, &probe, called](absl::StatusOr<kv::GetResult> got) {
    if (!got.ok()) return Refused(probe, called);
    ProbeAnswer answer{.store = probe.name, .called = called, .seq = got->seq};
    for (size_t i = 0; i < got->values.size(); ++i)
      answer.values[ProbeKey(options_.stores[i].first)] = got->values[i].value_or("");
    Keep(probe, std::move(answer));
  });
}

void StoreProbes::Commit(Probe& probe) {
  kv::CommitRequest request;
  request.session = probe.session;
  request.number = ++probe.number;
  request.groups = {{.mutations = {{.cf = kv::ColumnFamily::kMeta,
                                    .key = ProbeKey(probe.name),
                                    .value = absl::StrCat(probe.number)}}}};
  ProbeAnswer answer{.store = probe.name, .called = absl::Now()};
  answer.session = probe.session;
  answer.number = probe.number;
  probe.store.Commit(std::move(request),
                     [this, &probe, answer](absl::StatusOr<kv::CommitResult> result) mutable {
                       if (!result.ok()) return Refused(probe, answer.called);
                       answer.seq = result->seq;
                       Keep(probe, std::move(answer));
                     });
}

void StoreProbes::Refused(Probe& probe, absl::Time called) {
  const bool late = absl::Now() - called > kSilence;
  absl::MutexLock lock(&mu_);
  --probe.open;
  ++refused_;
  refused_late_ += late ? 1 : 0;
}

void StoreProbes::Keep(Probe& probe, ProbeAnswer answer) {
  answer.answered = absl::Now();
  absl::MutexLock lock(&mu_);
  --probe.open;
  if (last_time_ <= answer.answered) {
    last_ = answer.store;
    last_time_ = answer.answered;
  }
  answers_.push_back(std::move(answer));
}

std::string StoreProbes::leader() const {
  absl::MutexLock lock(&mu_);
  return absl::Now() - last_time_ < kLeaderWithin ? last_ : "";
}

std::vector<ProbeAnswer> StoreProbes::answers() const {
  absl::MutexLock lock(&mu_);
  return answers_;
}

uint64_t StoreProbes::refused() const {
  absl::MutexLock lock(&mu_);
  return refused_;
}

uint64_t StoreProbes::refused_late() const {
  absl::MutexLock lock(&mu_);
  return refused_late_;
}

}  // namespace escapement::chaos
