#include "services/master/operations/redrive_reader.h"

#include <set>
#include <string>
#include <utility>

#include "services/master/base/errors.h"

namespace escapement::master {

void ReadRedriveFacts(MasterContext& context, const std::vector<StoredDeadLetter>& letters,
                      absl::AnyInvocable<void(absl::StatusOr<RedriveFacts>)> done) {
  std::set<std::pair<kv::ColumnFamily, std::string>> wanted;
  for (const StoredDeadLetter& letter : letters) {
    for (kv::Key& key : RedriveFactKeys(letter)) wanted.emplace(key.cf, std::move(key.key));
  }
  if (wanted.empty()) return done(RedriveFacts());
  std::vector<kv::Key> keys;
  for (const auto& [cf, key] : wanted) keys.push_back({cf, key});
  context.client.MultiGet(
      keys, context.executor,
      [keys, done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        RedriveFacts facts;
        for (size_t i = 0; i < keys.size(); ++i)
          facts[{keys[i].cf, std::move(keys[i].key)}] = std::move(result->values[i]);
        done(std::move(facts));
      });
}

}  // namespace escapement::master
