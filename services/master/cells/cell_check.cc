#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/kv/group_parts.h"
#include "common/kv/layout.h"
#include "common/status/errors.h"
#include "common/tokens/token_batch.h"
#include "services/master/base/errors.h"
#include "services/master/cells/cell_directory.h"
#include "services/master/cells/cell_service.h"

namespace escapement::master {
namespace {

constexpr absl::Duration kAnswerWithin = absl::Seconds(10);
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);

absl::Status Mismatch(uint32_t cell, absl::string_view what) {
  return FailedPrecondition("CELL_MISMATCH",
                            absl::StrCat("the store cannot be ", NameOfCell(cell), ": ", what),
                            {{"resource", NameOfCell(cell)}});
}

std::string NumbersOf(const kv::Layout& layout) {
  return absl::StrCat(layout.partitions, " partitions, ", layout.queue_shards, " queue shards and ",
                      layout.policy_shards, " policy shards");
}

class CellStoreCheck : public std::enable_shared_from_this<CellStoreCheck> {
 public:
  using Ended = absl::AnyInvocable<void(absl::Status)>;

  CellStoreCheck(MasterContext& home, OpenedStore store, uint32_t cell, bool adopt, Ended done)
      : home_(home),
        cell_(cell),
        adopt_(adopt),
        done_(std::move(done)),
        store_(std::move(store)),
        client_(std::make_unique<kv::KvClient>(*store_.store, home.runtime, ClientOptions())) {}

  void Start() {
    timer_ = home_.executor->PostAfter(kAnswerWithin, [self = shared_from_this()] {
      if (self->home_key_.empty()) return self->End(NotReady());
      self->End(
          MakeError(absl::StatusCode::kUnavailable, "CELL_UNREACHABLE",
                    absl::StrCat("the store of ", NameOfCell(self->cell_), " does not answer"),
                    {{"resource", NameOfCell(self->cell_)}}));
    });
    ReadHomeKey();
  }

 private:
  void ReadHomeKey() {
    if (ended_) return;
    home_.client.MultiGet({{kv::ColumnFamily::kMeta, std::string(kTokenKeyKey)}}, home_.executor,
                          [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                            if (!result.ok()) return self->End(StoreFailed(result.status()));
                            self->OnHomeKey(std::move(result->values[0]));
                          });
  }

  // The first process of the home cell makes the key soon after its start.
  void OnHomeKey(std::optional<std::string> key) {
    if (!key.has_value()) {
      home_.executor->PostAfter(kLookAgain, [self = shared_from_this()] { self->ReadHomeKey(); });
      return;
    }
    home_key_ = *std::move(key);
    Read();
  }

  kv::KvClient::Options ClientOptions() const {
    kv::KvClient::Options options;
    options.name = absl::StrCat("check of ", NameOfCell(cell_));
    return options;
  }

  void Read() {
    if (ended_) return;
    client_->MultiGet({{kv::ColumnFamily::kMeta, std::string(kv::kLayoutKey)},
                       {kv::ColumnFamily::kMeta, std::string(kTokenKeyKey)}},
                      home_.executor,
                      [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                        if (!result.ok()) return self->End(StoreFailed(result.status()));
                        self->OnRead(result->values[0], result->values[1]);
                      });
  }

  void OnRead(const std::optional<std::string>& layout_bytes,
              const std::optional<std::string>& key) {
    const absl::StatusOr<kv::Layout> layout = kv::DecodeLayout(layout_bytes.value_or(""));
    if (!layout.ok()) return End(Mismatch(cell_, "its layout cannot be read"));
    if (layout->cell != cell_) {
      return End(Mismatch(cell_, absl::StrCat("it is cell ", layout->cell,
                                              "; the store's flag --cell says which it is")));
    }
    kv::Layout as_home = *layout;
    as_home.cell = home_.layout.cell;
    if (as_home != home_.layout) {
      return End(Mismatch(cell_, absl::StrCat("it has ", NumbersOf(*layout), ", cells/0 has ",
                                              NumbersOf(home_.layout))));
    }
    if (key.has_value() && *key != home_key_)
      return End(Mismatch(cell_, "it is a cell of another installation"));
    if (key.has_value() || !adopt_) return End(absl::OkStatus());
    PutKey();
  }

  void PutKey() {
    kv::Commit commit;
    kv::Group& group = commit.groups.emplace_back();
    group.conditions.push_back(kv::Absent(kv::ColumnFamily::kMeta, std::string(kTokenKeyKey)));
    group.mutations.push_back(
        kv::Put(kv::ColumnFamily::kMeta, std::string(kTokenKeyKey), home_key_));
    client_->CommitAsync(std::move(commit), home_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
                           if (!result.ok()) return self->End(StoreFailed(result.status()));
                           // Another call may have been first: the key says whose.
                           result->verdicts[0].applied ? self->End(absl::OkStatus()) : self->Read();
                         });
  }

  void End(absl::Status status) {
    if (std::exchange(ended_, true)) return;
    home_.executor->Cancel(timer_);
    done_(std::move(status));
    // Not within a callback of the client.
    home_.executor->Post([self = shared_from_this()] { self->client_.reset(); });
  }

  MasterContext& home_;
  const uint32_t cell_;
  const bool adopt_;
  Ended done_;
  // Destroyed in the reverse order.
  OpenedStore store_;
  std::unique_ptr<kv::KvClient> client_;
  Executor::TimerId timer_ = 0;
  std::string home_key_;
  bool ended_ = false;
};

}  // namespace

void CheckCellStore(MasterContext& home, OpenedStore store, uint32_t cell, bool adopt,
                    absl::AnyInvocable<void(absl::Status)> done) {
  std::make_shared<CellStoreCheck>(home, std::move(store), cell, adopt, std::move(done))->Start();
}

}  // namespace escapement::master
