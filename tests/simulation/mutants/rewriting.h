// The building block of mutants: a store in front of the store. It changes what processes of one
// kind send to the store and receive from it. The services are unchanged.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_MUTANTS_REWRITING_H_
#define TESTS_SIMULATION_MUTANTS_REWRITING_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "tests/simulation/mutants/mutants.h"

namespace escapement::simulation {

// The changes that a mutant makes. An empty function changes nothing. A process gets a new Rewrite
// at each start, so counters inside start again, too.
struct Rewrite {
  // Edits a commit before it is sent; called once for each commit, not for its resends.
  std::function<void(kv::CommitRequest*)> commit = nullptr;
  // Takes a part out of a commit. The part is committed separately, `gap` after the rest and before
  // the answer.
  std::function<std::optional<kv::Commit>(kv::CommitRequest*)> split = nullptr;
  // If it returns true, the commit is answered as applied at once and sent `gap` later.
  std::function<bool(const kv::CommitRequest&)> unawaited = nullptr;
  absl::Duration gap = absl::ZeroDuration();
  // A commit whose answer is unknown is sent again as a new one, in another session.
  bool resends_anew = false;
  // An unknown answer counts as a refusal.
  bool refuses_unknown = false;
  // Edits every value that is read, scanned or watched.
  std::function<void(kv::ColumnFamily, const std::string& key, std::string* value)> value = nullptr;
  std::function<void(const kv::ScanRequest&, kv::ScanResult*)> scan = nullptr;
  std::function<void(kv::WatchRequest*)> watch = nullptr;
  // False: the process never receives this batch of a watch of this column family.
  std::function<bool(kv::ColumnFamily)> hears = nullptr;
  bool ignores_lag = false;
  // Added to every store time that the process receives.
  absl::Duration ahead = absl::ZeroDuration();
  // The process does not notice when the store announces that its time goes at half pace.
  bool ignores_slow_phase = false;
  // Delays every commit.
  absl::Duration delay = absl::ZeroDuration();
};

// For processes whose names begin with `service`.
StoreDecorator Rewriting(std::string service, std::function<Rewrite()> make);

// Returns true at every n-th call.
class Every {
 public:
  explicit Every(int n) : n_(n) {}
  bool operator()() { return ++calls_ % n_ == 0; }

 private:
  int n_;
  int calls_ = 0;
};

inline bool IsPut(const kv::Mutation& mutation) {
  return mutation.kind == kv::Mutation::Kind::kPut ||
         mutation.kind == kv::Mutation::Kind::kPutStamped;
}

template <typename Predicate>
void EraseMutations(kv::Group* group, Predicate predicate) {
  group->mutations.erase(
      std::remove_if(group->mutations.begin(), group->mutations.end(), predicate),
      group->mutations.end());
}

template <typename Predicate>
void EraseMutations(kv::CommitRequest* request, Predicate predicate) {
  for (kv::Group& group : request->groups) EraseMutations(&group, predicate);
}

// Takes the matching mutations out of the commit. Each group's mutations form a group of the
// result.
template <typename Predicate>
std::optional<kv::Commit> TakeMutations(kv::CommitRequest* request, Predicate predicate) {
  kv::Commit taken;
  for (kv::Group& group : request->groups) {
    kv::Group own;
    for (const kv::Mutation& mutation : group.mutations) {
      if (predicate(mutation)) own.mutations.push_back(mutation);
    }
    EraseMutations(&group, predicate);
    if (!own.mutations.empty()) taken.groups.push_back(std::move(own));
  }
  if (taken.groups.empty()) return std::nullopt;
  return taken;
}

template <typename Predicate>
bool AnyMutation(const kv::CommitRequest& request, Predicate predicate) {
  return std::any_of(request.groups.begin(), request.groups.end(), [&](const kv::Group& group) {
    return std::any_of(group.mutations.begin(), group.mutations.end(), predicate);
  });
}

// Replaces the conditions that the predicate selects by one that always holds.
template <typename Predicate>
void WaiveConditions(std::vector<kv::Condition>* conditions, Predicate predicate) {
  for (kv::Condition& condition : *conditions) {
    if (!predicate(condition)) continue;
    condition = {.cf = kv::ColumnFamily::kMembers,
                 .key = "\xff nobody",
                 .kind = kv::Condition::Kind::kAbsent};
  }
}

template <typename Predicate>
void WaiveConditions(kv::CommitRequest* request, Predicate predicate) {
  WaiveConditions(&request->fence, predicate);
  for (kv::Group& group : request->groups) WaiveConditions(&group.conditions, predicate);
}

// Parses each value that is put in `cf` as a Record. `edit` may change the record and the mutation.
template <typename Record, typename Edit>
void EditPuts(kv::CommitRequest* request, kv::ColumnFamily cf, Edit edit) {
  for (kv::Group& group : request->groups) {
    for (kv::Mutation& mutation : group.mutations) {
      Record record;
      if (mutation.cf != cf || !IsPut(mutation) || !record.ParseFromString(mutation.value))
        continue;
      edit(&mutation, &record);
      mutation.value = record.SerializeAsString();
    }
  }
}

// Edits a value that was read, as a Record.
template <typename Record, typename Edit>
void EditValue(std::string* value, Edit edit) {
  Record record;
  if (!record.ParseFromString(*value)) return;
  edit(&record);
  *value = record.SerializeAsString();
}

// Plants the fault in the handlers.
inline StoreDecorator Handlers(std::function<Rewrite()> make) {
  return Rewriting("handler", std::move(make));
}

// Every n-th commit of these processes ignores the epochs of their leases.
StoreDecorator Unfenced(std::string service, int n);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_MUTANTS_REWRITING_H_
