#include "common/kv/wire/leader_search.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/kv/not_leader.h"
#include "common/net/name_resolver.h"
#include "common/status/errors.h"

namespace escapement::kv {

class HeldWatch::Handle final : public Watch {
 public:
  explicit Handle(std::shared_ptr<HeldWatch> watch) : watch_(std::move(watch)) {}
  ~Handle() override { watch_->Close(); }
  void MoveEnd(size_t range, std::string end) override { watch_->MoveEnd(range, std::move(end)); }

 private:
  const std::shared_ptr<HeldWatch> watch_;
};

std::unique_ptr<Watch> HeldWatch::HandleOf(std::shared_ptr<HeldWatch> watch) {
  return std::make_unique<Handle>(std::move(watch));
}

void HeldWatch::Open(KvStore& store) {
  {
    absl::MutexLock lock(&mu_);
    if (closed_) return;
  }
  // Without the lock: the store may call the observer at once, and the observer may end the watch.
  WatchObserver observer;
  observer.on_batch = [gate = gate_](WatchBatch batch) { gate->Batch(std::move(batch)); };
  observer.on_lagged = [gate = gate_](const absl::Status& why) { gate->Lagged(why); };
  std::unique_ptr<Watch> opened = store.OpenWatch(std::move(request_), std::move(observer));
  absl::MutexLock lock(&mu_);
  if (closed_) return;  // `opened` ends after the lock is released
  inner_ = std::move(opened);
  for (auto& [range, end] : moved_ends_) inner_->MoveEnd(range, std::move(end));
}

void HeldWatch::Close() {
  // Destroyed without the lock: its end may wait for a running call of the observer.
  std::unique_ptr<Watch> ended;
  {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    ended = std::move(inner_);
  }
  gate_->Close();
}

void HeldWatch::MoveEnd(size_t range, std::string end) {
  absl::MutexLock lock(&mu_);
  if (inner_ != nullptr) return inner_->MoveEnd(range, std::move(end));
  moved_ends_[range] = std::move(end);
}

namespace {

constexpr size_t kNameCharsMax = 253;    // RFC 1035
constexpr size_t kAnswerCharsMax = 120;  // NoLeader cuts longer answers
// A process that lives has reported itself within this time.
constexpr int64_t kReportSecondsMax = 5;

bool InName(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; }

}  // namespace

std::optional<std::string> PlainAddress(absl::string_view address) {
  if (address.size() > kNameCharsMax + 8) return std::nullopt;
  const auto place = ParseHostPort(address);
  if (!place.ok() || place->port == 0) return std::nullopt;
  const std::string& host = place->host;
  const bool plain = NameResolver::IsAddress(host) || std::all_of(host.begin(), host.end(), InName);
  if (!plain) return std::nullopt;
  return place->ToString();
}

LeaderSearch::LeaderSearch(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses)
    configured_.push_back({ParseHostPort(address).value(), {}});
  if (configured_.size() == 1) current_ = StoreAddress{configured_[0].place.ToString()};
}

bool LeaderSearch::has_choice() const { return not_leader_seen_ || Candidates().size() > 1; }

bool LeaderSearch::can_doubt() const {
  return has_choice() || !NameResolver::IsAddress(configured_[0].place.host);
}

std::vector<StoreAddress> LeaderSearch::Candidates() const {
  std::vector<StoreAddress> candidates;
  const auto add = [&candidates](StoreAddress candidate) {
    if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end())
      candidates.push_back(std::move(candidate));
  };
  for (const Configured& configured : configured_) {
    if (configured.addresses.size() < 2) add({configured.place.ToString()});
    for (const std::string& address : configured.addresses) {
      if (configured.addresses.size() < 2) break;
      add({HostPort{address, configured.place.port}.ToString(), configured.place.ToString()});
    }
  }
  for (const std::string& named : named_) add({named});
  if (current_.has_value()) add(*current_);
  return candidates;
}

bool LeaderSearch::OnCallFailed(const StoreAddress& from, const absl::Status& error) {
  if (current_ != from || !absl::IsUnavailable(error)) return false;
  if (const auto leader = LeaderAddressOf(error); leader.has_value()) {
    not_leader_seen_ = true;
    AddNamed(*leader);
  } else if (!has_choice()) {
    return false;
  }
  last_answers_[from] = std::string(error.message());
  current_.reset();
  doubting_ = false;
  return true;
}

void LeaderSearch::Doubt() { doubting_ = current_.has_value(); }

void LeaderSearch::Trust() { doubting_ = false; }

void LeaderSearch::BeginRound() {
  hops_ = 0;
  const std::vector<StoreAddress> candidates = Candidates();
  std::erase_if(last_answers_, [&candidates](const auto& answer) {
    return std::find(candidates.begin(), candidates.end(), answer.first) == candidates.end();
  });
}

std::optional<StoreAddress> LeaderSearch::OnProbe(const StoreAddress& from,
                                                  const absl::Status& answer) {
  if (answer.ok()) {
    last_answers_.erase(from);
    // The first leader that answers is taken. Later answers belong to a search that is over.
    if (!current_.has_value() || doubting_) {
      current_ = from;
      doubting_ = false;
    }
    return std::nullopt;
  }
  last_answers_[from] = std::string(answer.message());
  const auto leader = LeaderAddressOf(answer);
  if (!leader.has_value()) return std::nullopt;
  not_leader_seen_ = true;
  // The leader's address matters only while it is looked for.
  if (current_.has_value() && !doubting_) return std::nullopt;
  return AddNamed(*leader);
}

std::optional<StoreAddress> LeaderSearch::AddNamed(absl::string_view address) {
  const auto plain = PlainAddress(address);
  if (!plain.has_value() || hops_ >= kHopsMax) return std::nullopt;
  const StoreAddress candidate{*plain};
  for (const StoreAddress& known : Candidates()) {
    if (known.target == candidate.target) return std::nullopt;
  }
  ++hops_;
  named_.push_back(candidate.target);
  if (named_.size() > kNamedStoresMax) named_.pop_front();
  return candidate;
}

std::vector<std::string> LeaderSearch::Names() const {
  std::vector<std::string> names;
  for (const Configured& configured : configured_) {
    const std::string& host = configured.place.host;
    const bool known = std::find(names.begin(), names.end(), host) != names.end();
    if (!known && !NameResolver::IsAddress(host)) names.push_back(host);
  }
  return names;
}

void LeaderSearch::OnAddresses(absl::string_view name, const std::vector<std::string>& addresses) {
  for (Configured& configured : configured_) {
    if (configured.place.host != name) continue;
    configured.addresses = addresses;
    if (addresses.size() > kAddressesOfNameMax) configured.addresses.resize(kAddressesOfNameMax);
  }
}

absl::Status LeaderSearch::NoLeader() const {
  std::string text = "no store leads";
  const char* before = ": ";
  for (const StoreAddress& candidate : Candidates()) {
    const auto answer = last_answers_.find(candidate);
    absl::StrAppend(
        &text, before, candidate.target, ": ",
        answer == last_answers_.end() ? "no answer" : answer->second.substr(0, kAnswerCharsMax));
    before = "; ";
  }
  return absl::UnavailableError(text);
}

bool OfLeader(const v1::StoreStatus& status) {
  if (!status.has_replication()) return true;
  const auto& replicas = status.replication().replicas();
  return std::any_of(replicas.begin(), replicas.end(), [](const v1::StoreReplica& replica) {
    return replica.role() == v1::StoreReplica::LEADER && replica.problem().empty() &&
           replica.reported_ago().seconds() < kReportSecondsMax;
  });
}

absl::StatusOr<v1::StoreStatus> JoinStatuses(const std::vector<StatusAnswer>& answers) {
  const v1::StoreStatus* newest = nullptr;
  std::map<std::string, v1::StoreReplica> replicas;  // by store_id
  std::set<std::string> problems;
  const auto seen = [](const v1::StoreStatus& status) {
    return std::pair(status.replication().epoch(), status.replication().log_seq());
  };
  const auto age = [](const v1::StoreReplica& replica) {
    return std::pair(replica.reported_ago().seconds(), replica.reported_ago().nanos());
  };
  for (const StatusAnswer& answer : answers) {
    if (!answer.status.ok()) continue;
    if (newest == nullptr || seen(*newest) < seen(*answer.status)) newest = &*answer.status;
    for (const v1::StoreReplica& replica : answer.status->replication().replicas()) {
      const auto known = replicas.find(replica.store_id());
      if (known == replicas.end() || age(replica) < age(known->second))
        replicas[replica.store_id()] = replica;
    }
    for (const std::string& problem : answer.status->replication().log_problems())
      problems.insert(problem);
  }
  if (newest == nullptr) return answers.front().status.status();
  v1::StoreStatus joined = *newest;
  if (!joined.has_replication()) return joined;
  v1::StoreReplication& log = *joined.mutable_replication();
  log.clear_replicas();
  for (auto& [id, replica] : replicas) *log.add_replicas() = std::move(replica);
  for (const StatusAnswer& answer : answers) {
    if (answer.status.ok()) continue;
    v1::StoreReplica& silent = *log.add_replicas();
    silent.set_address(answer.from.target);
    silent.set_problem(ErrorText(absl::StrCat(
        "does not answer: ", answer.status.status().message().substr(0, kAnswerCharsMax))));
  }
  log.clear_log_problems();
  for (const std::string& problem : problems) log.add_log_problems(problem);
  return joined;
}

}  // namespace escapement::kv
