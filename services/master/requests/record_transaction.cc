#include "services/master/requests/record_transaction.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/perturb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

constexpr absl::Duration kRetryDelayMin = absl::Milliseconds(5);
constexpr absl::Duration kRetryDelayMax = absl::Milliseconds(500);

class Transaction : public std::enable_shared_from_this<Transaction> {
 public:
  Transaction(MasterContext& context, RecordChange change, RecordChanged done)
      : context_(context), change_(std::move(change)), done_(std::move(done)) {}

  void Read() {
    std::vector<kv::Key> keys = {change_.key};
    if (change_.mark.active()) keys.push_back(change_.mark.key());
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->OnRead(std::move(result->values));
                             });
  }

 private:
  void OnRead(std::vector<std::optional<std::string>> values) {
    if (change_.mark.active()) {
      const absl::StatusOr<bool> replayed = change_.mark.Replay(values[1], change_.response.get());
      if (!replayed.ok()) return done_(replayed.status());
      if (*replayed) return done_(std::move(change_.response));
    }
    if (Perturb(context_.runtime, Site::kMasterPolicyReadsAgain)) return Again();
    bytes_ = std::move(values[0]);
    if (change_.read_more == nullptr) return Decide();
    change_.read_more(bytes_, [self = shared_from_this()](absl::Status status) {
      if (!status.ok()) return self->done_(std::move(status));
      self->Decide();
    });
  }

  void Decide() {
    const absl::Time now = context_.client.NowLow();
    absl::StatusOr<RecordDecision> decision = change_.decide(bytes_, now);
    if (!decision.ok()) return done_(decision.status());
    decision_ = *std::move(decision);
    if (change_.validate_only) return CheckRanges(0);
    // Its condition is the last one: what refuses the change is said first.
    change_.mark.AddTo(*decision_.response, now, decision_.version_before, decision_.group);
    kv::Commit commit;
    commit.groups.push_back(std::move(decision_.group));
    context_.client.CommitAsync(
        std::move(commit), context_.executor,
        [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
          self->OnCommitted(std::move(result));
        });
  }

  // Reads the ranges that must be empty, from the condition `i` on.
  void CheckRanges(size_t i) {
    const std::vector<kv::Condition>& conditions = decision_.group.conditions;
    const auto needs_empty = [](const kv::Condition& condition) {
      return condition.kind == kv::Condition::Kind::kRangeCount && condition.number == 0;
    };
    while (i < conditions.size() && !needs_empty(conditions[i])) ++i;
    if (i == conditions.size()) return done_(std::move(decision_.response));
    kv::ScanRequest scan;
    scan.cf = conditions[i].cf;
    scan.begin = conditions[i].key;
    scan.end = conditions[i].value;
    scan.limit = 1;
    scan.keys_only = true;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(), i](absl::StatusOr<kv::ScanResult> found) {
                           if (!found.ok()) return self->done_(StoreFailed(found.status()));
                           if (!found->entries.empty())
                             return self->done_(std::move(self->decision_.refusals[i]));
                           self->CheckRanges(i + 1);
                         });
  }

  void OnCommitted(absl::StatusOr<kv::CommitResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    const kv::Verdict& verdict = result->verdicts[0];
    if (verdict.applied) {
      if (change_.committed != nullptr) change_.committed->Increment();
      return done_(std::move(decision_.response));
    }
    const size_t failed = verdict.failed_condition;
    if (failed < decision_.refusals.size() && !decision_.refusals[failed].ok())
      return done_(std::move(decision_.refusals[failed]));
    Again();
  }

  void Again() {
    if (++attempts_ >= kChangeAttemptsMax) return done_(Contended(change_.resource));
    // The first tries follow at once: few others change the record.
    const absl::Duration delay =
        attempts_ <= 2 ? absl::ZeroDuration()
                       : std::min(kRetryDelayMin * (int64_t{1} << std::min(attempts_ - 3, 10)),
                                  kRetryDelayMax);
    context_.executor->PostAfter(delay, [self = shared_from_this()] { self->Read(); });
  }

  MasterContext& context_;
  RecordChange change_;
  RecordChanged done_;
  std::optional<std::string> bytes_;  // the record as it was read
  RecordDecision decision_;
  int attempts_ = 0;
};

}  // namespace

void ChangeRecord(MasterContext& context, RecordChange change, RecordChanged done) {
  std::make_shared<Transaction>(context, std::move(change), std::move(done))->Read();
}

}  // namespace escapement::master
