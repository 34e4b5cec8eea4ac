#include "services/master/operations/dead_letter_redrive.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status/errors.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/operations/redrive_batch.h"
#include "services/master/operations/redrive_reader.h"
#include "services/master/requests/request_reader.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(5);

class Redrive : public std::enable_shared_from_this<Redrive> {
 public:
  Redrive(MasterContext& context, DeadLetterName name, RequestMark mark, bool validate_only,
          Done<v1::Event> done)
      : context_(context),
        name_(std::move(name)),
        key_(EncodeDeadLetterKey(name_)),
        mark_(std::move(mark)),
        validate_only_(validate_only),
        done_(std::move(done)) {}

  void Start() {
    AnswerOr(context_, mark_, done_, [self = shared_from_this()] { self->ReadLetter(); });
  }

 private:
  void ReadLetter() {
    context_.client.MultiGet({{kv::ColumnFamily::kDeadLetters, key_}}, context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               if (!result->values[0].has_value())
                                 return self->Refuse(NotFound(ToString(self->name_)));
                               self->OnLetter(*std::move(result->values[0]));
                             });
  }

  void OnLetter(std::string bytes) {
    absl::StatusOr<StoredDeadLetter> letter = ReadDeadLetter(key_, std::move(bytes));
    if (!letter.ok()) return done_(letter.status());
    letters_.assign(1, *std::move(letter));
    ReadRedriveFacts(context_, letters_,
                     [self = shared_from_this()](absl::StatusOr<RedriveFacts> facts) {
                       if (!facts.ok()) return self->done_(facts.status());
                       self->Decide(*facts);
                     });
  }

  void Decide(const RedriveFacts& facts) {
    const absl::Time now = context_.client.NowLow();
    RedriveBatch batch(facts, context_.layout, now);
    const absl::Status added = batch.Add(letters_[0], now);
    if (!added.ok()) return Refuse(added);
    response_ = ShowRedriven(letters_[0], batch.row());
    if (validate_only_) return done_(std::move(response_));
    kv::Commit commit;
    batch.MoveTo(commit.groups.emplace_back());
    mark_.AddTo(response_, now, /*version_before=*/0, commit.groups[0]);
    context_.client.CommitAsync(
        std::move(commit), context_.executor,
        [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
          self->OnCommitted(std::move(result));
        });
  }

  // An earlier try of this request may have redriven the event, applied after its mark was read.
  void Refuse(absl::Status status) {
    AnswerOr(context_, mark_, done_,
             [self = shared_from_this(), status = std::move(status)] { self->done_(status); });
  }

  void OnCommitted(absl::StatusOr<kv::CommitResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    if (result->verdicts[0].applied) {
      context_.metrics.dead_letters_redriven.Increment();
      return done_(std::move(response_));
    }
    if (++attempts_ >= kChangeAttemptsMax) return done_(Contended(ToString(name_)));
    context_.executor->PostAfter(kRetryDelay * attempts_,
                                 [self = shared_from_this()] { self->Start(); });
  }

  MasterContext& context_;
  const DeadLetterName name_;
  const std::string key_;
  const RequestMark mark_;
  const bool validate_only_;
  Done<v1::Event> done_;
  std::vector<StoredDeadLetter> letters_;  // one
  v1::Event response_;
  int attempts_ = 0;
};

}  // namespace

void RedriveOne(MasterContext& context, DeadLetterName name, RequestMark mark, bool validate_only,
                Done<v1::Event> done) {
  std::make_shared<Redrive>(context, std::move(name), std::move(mark), validate_only,
                            std::move(done))
      ->Start();
}

}  // namespace escapement::master
