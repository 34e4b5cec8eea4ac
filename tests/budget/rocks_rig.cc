#include "tests/budget/rocks_rig.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::budget {

RocksRig::RocksRig()
    : folder_(
          (std::filesystem::temp_directory_path() / absl::StrCat("escapement_budget_", getpid()))
              .string()) {
  std::filesystem::remove_all(folder_);
  kv::RocksKvStore::Options options;
  options.data_dir = folder_;
  // By the real clock the witness would run more often on a slower machine.
  options.witness_interval = absl::Hours(1);
  store_ = *kv::RocksKvStore::Open(std::move(options), runtime_.clock());
  executor_ = runtime_.NewExecutor("budget");
  client_ = std::make_unique<kv::KvClient>(*store_, runtime_, kv::KvClient::Options());
}

RocksRig::~RocksRig() {
  client_.reset();
  executor_->Stop();
  store_.reset();
  std::filesystem::remove_all(folder_);
}

void RocksRig::Commit(std::vector<kv::Group> groups) {
  std::promise<bool> applied;
  kv::Commit commit;
  commit.groups = std::move(groups);
  client_->CommitAsync(std::move(commit), executor_,
                       [&applied](absl::StatusOr<kv::CommitResult> result) {
                         bool all = result.ok();
                         for (size_t i = 0; all && i < result->verdicts.size(); ++i)
                           all = result->verdicts[i].applied;
                         applied.set_value(all);
                       });
  if (!applied.get_future().get()) std::abort();
}

}  // namespace escapement::budget
